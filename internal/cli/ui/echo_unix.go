//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ui

import "golang.org/x/sys/unix"

// echoOff keeps a terminal from showing what is typed.
func echoOff(fd int) error {
	state, err := unix.IoctlGetTermios(fd, GetTermios)
	if err != nil {
		return err
	}
	state.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(fd, setTermios, state)
}
