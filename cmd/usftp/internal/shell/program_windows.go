package shell

import (
	"cmp"
	"os"
	"os/exec"
	"syscall"
)

// commandLine returns cmd.exe with a command, or alone. It removes the outermost quotes and takes
// the rest as it is; it does not know the backslashes with which package exec escapes quotes.
func commandLine(command string) *exec.Cmd {
	cmd := exec.Command(cmp.Or(os.Getenv("COMSPEC"), "cmd.exe"))
	if command != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /s /c "` + command + `"`}
	}
	return cmd
}

// withArguments returns a command made from an environment variable and operands. The variable is a
// program, whose path may have spaces, or a command line.
func withArguments(program string, operands ...string) *exec.Cmd {
	if _, err := exec.LookPath(program); err == nil {
		return exec.Command(program, operands...)
	}
	for _, operand := range operands {
		program += ` "` + operand + `"` // no path has quotes
	}
	return commandLine(program)
}
