//go:build unix

package hooks

import (
	"os/exec"
	"syscall"
)

// killGroup makes the end of a command's context the end of all that it has started.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
