//go:build !unix

package ui

import "os"

// openTerminal opens the console: Windows has separate devices for keyboard and screen.
func openTerminal() (terminal, error) {
	in, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return terminal{}, err
	}
	out, err := os.OpenFile("CONOUT$", os.O_RDWR, 0)
	if err != nil {
		in.Close()
		return terminal{}, err
	}
	return terminal{in, out}, nil
}
