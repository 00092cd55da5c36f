package cp

import (
	"errors"
	"slices"
	"strings"

	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/transfer"
)

// canGoOn reports whether a copy that has failed can be gone on from with --resume: a file of which
// something is left, or a tree that was broken off.
func (c *Copier) canGoOn(err error) bool {
	var job *transfer.Error
	if errors.As(err, &job) && job.Resumable {
		return true
	}
	// anything else says that the tree was not: its host could not be reached, for one
	var begun *transfer.TreeError
	return errors.As(err, &begun) && c.tree != nil && !c.tree.DryRun && c.options.Placement != transfer.PlaceDirect &&
		(c.Ctx.Err() != nil || ui.CodeOf(err) == ui.ExitNoHost)
}

// sayHowToGoOn says which command goes on from what is left: the one that was typed, with --resume.
func (c *Copier) sayHowToGoOn() {
	if c.goesOn {
		c.Console.Say("to continue: " + resumeCommand(c.Args))
	}
}

// resumeCommand makes of the arguments of a command that copies the line that goes on from what it
// has left, for a shell.
func resumeCommand(args []string) string {
	words := []string{"usftp"}
	at := slices.Index(args, "cp")
	for i, arg := range args {
		words = append(words, ui.ShellWord(arg))
		if i == at && !slices.Contains(args, "--resume") {
			words = append(words, "--resume")
		}
	}
	return strings.Join(words, " ")
}
