package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/usftp/usftp/transfer"
)

// canGoOn tells whether a copy that has failed can be gone on from with --resume: a file of which
// something is left, or a tree that was broken off.
func (c *copier) canGoOn(err error) bool {
	var job *transfer.Error
	if errors.As(err, &job) && job.Resumable {
		return true
	}
	// anything else says that the tree was not: its host could not be reached, for one
	var begun *transfer.TreeError
	return errors.As(err, &begun) && c.tree != nil && !c.tree.DryRun && c.options.Placement != transfer.InPlace &&
		(c.ctx.Err() != nil || codeOf(err) == exitNoHost)
}

// sayHowToGoOn says which command goes on from what is left: the one that was typed, with --resume.
func (c *copier) sayHowToGoOn() {
	if c.goesOn {
		c.console.say("to go on from there: " + resumeCommand(c.args))
	}
}

// resumeCommand makes of the arguments of a command that copies the line that goes on from what it
// has left, for a shell.
func resumeCommand(args []string) string {
	words := []string{"usftp"}
	at := slices.Index(args, "cp")
	for i, arg := range args {
		words = append(words, shellWord(arg))
		if i == at && !slices.Contains(args, "--resume") {
			words = append(words, "--resume")
		}
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellWord quotes an argument where a shell would take it for something else. What no terminal
// should be shown comes in the form $'\x1b', which bash, zsh and others know.
func shellWord(arg string) string {
	if plainWord.MatchString(arg) {
		return arg
	}
	if printable(arg) == arg {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(arg) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}
