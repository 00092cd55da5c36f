//go:build darwin || dragonfly || freebsd || netbsd || openbsd || linux

package ui

import "golang.org/x/sys/unix"

// makeRaw has a terminal give each key as it is pressed, Ctrl-C and Ctrl-Z among them, and show
// nothing by itself. What is written still ends its lines with \n alone, as messages do.
func makeRaw(fd int) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, GetTermios)
	if err != nil {
		return nil, err
	}
	state := *before
	state.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	state.Iflag &^= unix.IXON | unix.ICRNL | unix.INLCR | unix.IGNCR
	state.Cc[unix.VMIN], state.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &state); err != nil {
		return nil, err
	}
	return func() { unix.IoctlSetTermios(fd, setTermios, before) }, nil
}

// SuspendSelf stops the program and what belongs to it, as Ctrl-Z does, and returns when it goes
// on.
var SuspendSelf = func() { unix.Kill(0, unix.SIGTSTP) }
