package cp

import (
	"errors"

	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/transfer"
)

// resumable reports whether --resume could continue a failed copy: a file of which something is
// left, or an interrupted tree.
func (c *Copier) resumable(err error) bool {
	if job, ok := errors.AsType[*transfer.Error](err); ok && job.Resumable {
		return true
	}
	// any other error means that the tree was not started, for example because its host could not
	// be reached
	return errors.As(err, new(*transfer.TreeError)) && c.tree != nil && !c.tree.DryRun &&
		c.options.Placement != transfer.PlaceDirect &&
		(c.Ctx.Err() != nil || ui.CodeOf(err) == ui.ExitNoHost)
}

// printResumeHint prints the command that continues what is left: the one that was typed, with
// --resume.
func (c *Copier) printResumeHint() {
	if c.canResume {
		c.Console.Say("to continue: " + ui.CommandLine(c.Args, "cp", "--resume"))
	}
}
