//go:build unix

package ui

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Umask returns this process's umask at the first call.
var Umask = sync.OnceValue(func() uint32 {
	status, _ := os.ReadFile("/proc/self/status") // on Linux
	_, text, _ := strings.Cut(string(status), "\nUmask:\t")
	text, _, _ = strings.Cut(text, "\n")
	if mask, err := strconv.ParseUint(text, 8, 32); err == nil {
		return uint32(mask)
	}
	mask := syscall.Umask(0o077) // elsewhere there is no other way to read it
	syscall.Umask(mask)
	return uint32(mask)
})

// SetUmask sets the umask of this process and of the programs that it starts.
func SetUmask(mask uint32) error {
	syscall.Umask(int(mask))
	return nil
}
