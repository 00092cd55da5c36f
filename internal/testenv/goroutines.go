package testenv

import (
	"bytes"
	"runtime"
)

// Goroutines returns the number of goroutines. runtime.NumGoroutine still counts, for a moment, a
// goroutine that has ended.
func Goroutines() int {
	for size := 1 << 20; ; size *= 2 {
		dump := make([]byte, size)
		if n := runtime.Stack(dump, true); n < size {
			return bytes.Count(dump[:n], []byte("\n\ngoroutine ")) + 1
		}
	}
}
