//go:build unix

package ui

import (
	"sync"
	"syscall"
)

// Umask returns this process's umask at the first call.
var Umask = sync.OnceValue(func() uint32 {
	mask := syscall.Umask(0o077) // there is no other way to read it
	syscall.Umask(mask)
	return uint32(mask)
})

// SetUmask sets the umask of this process and of the programs that it starts.
func SetUmask(mask uint32) error {
	syscall.Umask(int(mask))
	return nil
}
