//go:build unix

package hooks

import (
	"os/exec"
	"syscall"
)

// killGroup makes a command's context kill all processes of the command when it ends.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
