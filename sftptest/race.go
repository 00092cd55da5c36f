//go:build race

package sftptest

import (
	"runtime"
	"unsafe"
)

// move copies memory that is ours alone. The race detector does not check it, as that takes ten
// times as long as copying: a lock guards all of it, and raceRead or raceWritten checks memory lent
// by callers all at once. It copies arrays because the runtime always checks slices.
//
//go:norace
func move(dst, src []byte) int {
	const block, word = 4096, 32
	n, at := min(len(dst), len(src)), 0
	for ; at+block <= n; at += block {
		*(*[block]byte)(dst[at:]) = *(*[block]byte)(src[at:])
	}
	for ; at+word <= n; at += word {
		*(*[word]byte)(dst[at:]) = *(*[word]byte)(src[at:])
	}
	for ; at < n; at++ {
		dst[at] = src[at]
	}
	return n
}

// raceRead tells the race detector that a caller's memory is read.
func raceRead(p []byte) {
	if len(p) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(&p[0]), len(p))
	}
}

// raceWritten tells the race detector that a caller's memory is written.
func raceWritten(p []byte) {
	if len(p) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(&p[0]), len(p))
	}
}
