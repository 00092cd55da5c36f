package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

func NewCheck(a *ui.App, flags *opt.Report, list string, strict bool) Reporter {
	if flags.JSON {
		return &eventWriter{out: a.Out, console: a.Console, checking: true}
	}
	c := &checker{person: *newPerson(a, flags, Look{Recursive: true}), list: list, strict: strict,
		out: a.Out}
	if c.moving && ui.IsTerminal(a.Stdout) {
		c.out = a.Console // otherwise it would break the progress line
	}
	return c
}

// A checker reports the findings of a check to a person: the result for each file on standard
// output, as sha256sum -c does, and the rest on standard error.
type checker struct {
	person
	list   string
	strict bool
	out    io.Writer
}

func (c *checker) Event(e transfer.Event) {
	unlisted := e.Kind == transfer.Skipped || errors.Is(e.Err, transfer.ErrUnlisted)
	switch {
	case e.Kind == transfer.Ended:
		c.ended(e)
	case e.Name == "":
		c.person.Event(e)
	case e.Kind == transfer.Done && c.verbose:
		c.result(e, "OK")
	case unlisted && (c.verbose || c.strict):
		c.result(e, "not in the list")
	case e.Kind != transfer.Failed || unlisted:
	case !errors.Is(e.Err, checksum.ErrMismatch): // it failed for another reason than a difference
		c.result(e, "FAILED to read")
		c.Console.Say(e.Message)
	case errors.Is(e.Err, fs.ErrNotExist):
		c.result(e, "missing")
	default:
		c.result(e, "FAILED")
		if c.verbose {
			c.Console.Say(e.Message)
		}
	}
}

// result writes the result for one file.
func (c *checker) result(e transfer.Event, what string) {
	fmt.Fprintf(c.out, "%s: %s\n", ui.Printable(e.Name), what)
}

// ended ends the progress line, and sums up.
func (c *checker) ended(e transfer.Event) {
	t := e.Totals
	if c.endTree(e); errors.As(e.Err, new(*ui.OutputError)) {
		return
	}
	if c.quiet {
		return
	}
	wrong := t.Failed - t.Missing
	if c.strict {
		wrong -= t.Unlisted
	}
	matching := ui.Count(t.Files, "file matches", "files match")
	if e.Err == nil && t.Files > 1 {
		matching = "all " + matching
	}
	text := fmt.Sprintf("%s: %s %s", sourceOf(e), matching, c.list)
	text += counts(", ", count{wrong, "wrong or unreadable"}, count{t.Missing, "missing"},
		count{t.Unlisted, "not in it"})
	if !t.Complete {
		text += "; not all files were read"
	}
	c.Console.Tell(text)
}
