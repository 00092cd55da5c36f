//go:build !linux

package bigpipe

import "os"

// Widen does nothing: only Linux allows resizing a pipe.
func Widen(*os.File) {}
