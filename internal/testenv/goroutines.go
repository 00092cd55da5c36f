package testenv

import (
	"bytes"
	"runtime"
)

// Goroutines returns how many goroutines there are. runtime.NumGoroutine still counts, for a
// moment, one that has ended.
func Goroutines() int {
	for size := 1 << 20; ; size *= 2 {
		dump := make([]byte, size)
		if n := runtime.Stack(dump, true); n < size {
			return bytes.Count(dump[:n], []byte("\n\ngoroutine ")) + 1
		}
	}
}
