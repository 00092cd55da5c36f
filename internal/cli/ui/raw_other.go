//go:build !(darwin || dragonfly || freebsd || netbsd || openbsd || linux || windows)

package ui

import "golang.org/x/term"

// makeRaw has a terminal give each key as it is pressed and show nothing by itself.
func makeRaw(fd int) (restore func(), err error) {
	state, err := term.MakeRaw(fd)
	return func() { term.Restore(fd, state) }, err
}

// SuspendSelf is nil where Ctrl-Z does not stop programs.
var SuspendSelf func()
