//go:build !windows

package shell

import (
	"cmp"
	"os"
	"os/exec"
)

// commandLine returns the user's shell with a command, or alone.
func commandLine(command string) *exec.Cmd {
	cmd := exec.Command(cmp.Or(os.Getenv("SHELL"), "/bin/sh"))
	if command != "" {
		cmd.Args = append(cmd.Args, "-c", command)
	}
	return cmd
}

// withArguments returns a command made from an environment variable and operands.
func withArguments(program string, operands ...string) *exec.Cmd {
	return exec.Command("/bin/sh",
		append([]string{"-c", program + ` "$@"`, program}, operands...)...)
}
