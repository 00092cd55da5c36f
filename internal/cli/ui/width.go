package ui

import (
	"os"

	"golang.org/x/term"
)

// usualWidth is assumed of a terminal that does not report its width, such as a serial line or one
// made by expect or a container.
const usualWidth = 80

// Width is how many columns a terminal has.
func Width(f *os.File) int {
	if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
		return columns
	}
	return usualWidth
}
