//go:build unix

package verb

import (
	"sync"
	"syscall"
)

// umask returns this process's umask, since the host's is not known; chmod applies it if no class
// is given ("+w").
var umask = sync.OnceValue(func() uint32 {
	mask := syscall.Umask(0o077) // there is no other way to read it
	syscall.Umask(mask)
	return uint32(mask)
})
