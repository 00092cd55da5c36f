//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ui

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// echoOff stops a terminal from showing typed text.
func echoOff(fd int) error {
	return change(fd, func(state *unix.Termios) {
		state.Lflag &^= unix.ECHO
		state.Lflag |= unix.ICANON | unix.ISIG
		state.Iflag |= unix.ICRNL
	})
}

// readHidden reads a line after echoOff. term.ReadPassword would turn the echo off again, possibly
// after a signal has restored the terminal, and just before the program ends.
func readHidden(f *os.File) (string, error) { return ReadLine(f) }

// SignalsOff makes a terminal pass on Ctrl-C and Ctrl-Z as keys.
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

// foreground reports whether we may draw on a terminal: not while we run in the background of a
// shell, where a person types. If the terminal cannot say, we may.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group <= 0 || group == unix.Getpgrp()
}

// continuations returns a channel that receives each time the program continues after Ctrl-Z, until
// stop is called. The shell has had the terminal in between.
func continuations() (continued <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCONT)
	return c, func() { signal.Stop(c) }
}

// readerGone reports whether f is a pipe that has no reader any more.
func readerGone(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
}
