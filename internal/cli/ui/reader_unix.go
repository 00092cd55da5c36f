//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// readerGone reports whether f is a pipe that nobody reads any more.
func readerGone(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
}
