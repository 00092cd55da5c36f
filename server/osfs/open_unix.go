//go:build unix && !linux

package osfs

import "syscall"

const (
	openNonblock  = syscall.O_NONBLOCK
	openDirectory = syscall.O_NONBLOCK
)
