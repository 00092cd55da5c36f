//go:build unix

package ui

import "os"

func openTerminal() (terminal, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	return terminal{f, f}, err
}
