//go:build !linux

package bigpipe

import "os"

// Widen does nothing: only Linux lets a pipe be sized.
func Widen(*os.File) {}
