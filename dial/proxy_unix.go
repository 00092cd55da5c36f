//go:build unix

package dial

import (
	"os"
	"syscall"
)

// terminate asks a process to end: ssh then ends its own helpers.
func terminate(p *os.Process) { p.Signal(syscall.SIGTERM) }
