//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package ui

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

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
