//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// noTerminal keeps a command from the terminal that the tests may have been started from.
func noTerminal(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
