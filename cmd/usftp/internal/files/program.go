package files

import (
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
)

// Operand returns the operand that names a file on a host in a command of ours. It quotes
// characters that would make it a pattern: a host could call a file "*".
func Operand(host dial.Target, name string) string {
	host.Path = usftp.QuotePattern(name)
	return host.String()
}

// programGrace is how long a program may take to end after an interrupt, before it is killed.
const programGrace = 5 * time.Second

// runProgram runs a program on this machine, with our standard streams. Among several hosts each
// line of its output begins with the host's name, as usftp's own lines do.
func (c *command) runProgram(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.app.Stdin, c.app.Stdout, os.Stderr
	if c.app.Label > 0 {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, c.app.Out, c.app.Console
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = programGrace
	return c.app.AfterProgram(ctx, cmd.Run())
}
