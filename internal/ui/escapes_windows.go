package ui

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes makes the console obey escape sequences, which Windows disables by default.
func enableEscapes(f *os.File) {
	var mode uint32
	console := windows.Handle(f.Fd())
	if windows.GetConsoleMode(console, &mode) == nil {
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	}
}
