package ui

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes makes the console obey escape sequences, which Windows disables by default, and
// reports whether it does. A legacy console does not.
func enableEscapes(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	return windows.GetConsoleMode(console, &mode) == nil &&
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
