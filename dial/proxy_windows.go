package dial

import (
	"os"
	"os/exec"
	"syscall"
)

// terminate kills a process, which cannot be asked to end here.
func terminate(p *os.Process) { p.Kill() }

// shell returns the program that runs a command line. cmd.exe removes the outermost quotes and
// takes the rest as it is. It does not know the backslashes with which package exec escapes quotes.
func (c *Config) shell(line string) *exec.Cmd {
	cmd := c.program("cmd.exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `cmd.exe /s /c "` + line + `"`}
	return cmd
}
