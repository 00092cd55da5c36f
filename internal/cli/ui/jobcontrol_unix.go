//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ui

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// foreground reports whether a terminal is ours to draw on: not while a shell that runs us in the
// background has it, where a person types. It is if it does not tell.
func foreground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group <= 0 || group == unix.Getpgrp()
}

// continuations returns a channel that tells when the program goes on after it was stopped by
// Ctrl-Z, until stop is called. The shell has had the terminal in between.
func continuations() (continued <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, unix.SIGCONT)
	return c, func() { signal.Stop(c) }
}
