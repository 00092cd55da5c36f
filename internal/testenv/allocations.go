package testenv

import "testing"

// Allocations returns how many allocations a call of f makes, as [testing.AllocsPerRun] does: the
// least of several measurements, since what earlier tests have left running allocates too.
func Allocations(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for tries := 1; least > 0 && tries < 5; tries++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
