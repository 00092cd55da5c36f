package ui

import (
	"os"

	"golang.org/x/term"
)

// Raw puts a terminal into the state in which a program reads single keys, until restore is called
// or a signal ends the program.
func (a *App) Raw(f *os.File) (restore func(), err error) {
	enableEscapes(a.Stdout)
	undo, err := makeRaw(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return a.restore.set(undo), nil
}

// usualWidth is that of a terminal that does not tell its own: a serial line, or what expect and
// containers make.
const usualWidth = 80

// Width is how many columns a terminal has.
func Width(f *os.File) int {
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
		return columns
	}
	return usualWidth
}
