//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// echoOff stops a terminal from showing what is typed.
func echoOff(fd int) error {
	return change(fd, func(state *unix.Termios) {
		state.Lflag &^= unix.ECHO
		state.Lflag |= unix.ICANON | unix.ISIG
		state.Iflag |= unix.ICRNL
	})
}

// readHidden reads a line after echoOff. term.ReadPassword would turn the echo off again, which may
// be after a signal has restored the terminal, and just before the program ends.
func readHidden(f *os.File) (string, error) { return ReadLine(f) }

// SignalsOff has a terminal give Ctrl-C and Ctrl-Z as keys.
func SignalsOff(f *os.File) error {
	return change(int(f.Fd()), func(state *unix.Termios) { state.Lflag &^= unix.ISIG })
}

func change(fd int, how func(state *unix.Termios)) error {
	state, err := unix.IoctlGetTermios(fd, GetTermios)
	if err != nil {
		return err
	}
	how(state)
	return unix.IoctlSetTermios(fd, SetTermios, state)
}
