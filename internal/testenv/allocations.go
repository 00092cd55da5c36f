package testenv

import "testing"

// Allocations returns how many allocations a call of f makes, like [testing.AllocsPerRun]: the
// least of several measurements, because goroutines left over from earlier tests allocate too.
func Allocations(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for tries := 1; least > 0 && tries < 5; tries++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
