package ui

import (
	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// makeRaw has a console give each key as it is pressed, arrows as escape sequences, and show
// nothing by itself.
func makeRaw(fd int) (restore func(), err error) {
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	var mode uint32
	console := windows.Handle(fd)
	if windows.GetConsoleMode(console, &mode) == nil {
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_INPUT)
	}
	return func() { term.Restore(fd, state) }, nil
}

// SuspendSelf is nil where Ctrl-Z does not stop programs.
var SuspendSelf func()
