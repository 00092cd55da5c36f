//go:build unix

package ui

import "syscall"

// SetUmask sets the umask of this process and of the programs that it starts.
func SetUmask(mask uint32) error {
	syscall.Umask(int(mask))
	return nil
}
