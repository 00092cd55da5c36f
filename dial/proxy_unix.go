//go:build unix

package dial

import (
	"cmp"
	"os"
	"os/exec"
	"syscall"
)

// terminate asks a process to end: ssh then ends its own helpers.
func terminate(p *os.Process) { p.Signal(syscall.SIGTERM) }

// shell returns the program that runs a command line: the user's shell, as with OpenSSH.
func (c *Config) shell(line string) *exec.Cmd {
	return c.program(cmp.Or(c.getenv("SHELL"), "/bin/sh"), "-c", "exec "+line)
}
