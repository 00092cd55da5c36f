package ui

import (
	"os"

	"golang.org/x/term"
)

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
