// Package report reports to people and programs: messages, the progress line, JSON events.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// A Reporter reports to a person or to a program.
type Reporter interface {
	Event(transfer.Event) // of a copy
	Failed(error)         // outside any copy
	End(code int)
}

// Look describes the parts of an operation that matter to a report.
type Look struct {
	Recursive, DryRun bool
	ToTerminal        bool // the copy itself goes to the terminal
}

func New(a *ui.App, flags *opt.Report, l Look) Reporter {
	if flags.JSON {
		return &eventWriter{out: a.Out, console: a.Console}
	}
	return newPerson(a, flags, l)
}

func newPerson(a *ui.App, flags *opt.Report, l Look) *person {
	return &person{Console: a.Console, quiet: flags.Quiet, verbose: flags.Verbose > 0, look: l,
		planned: a.Out, moving: Moving(a, flags, l)}
}

// Moving reports whether a person sees progress. A progress line would break up other output on the
// same screen.
func Moving(a *ui.App, flags *opt.Report, l Look) bool {
	return a.Console.Terminal() && !flags.JSON && !flags.Quiet && !flags.NoProgress && !l.DryRun &&
		!l.ToTerminal
}

// A person is the Reporter for a person who reads standard error. Only the list of files that a dry
// run would copy goes to standard output, because the user asked for it.
type person struct {
	Console        *ui.Console
	planned        io.Writer
	quiet, verbose bool
	look           Look
	moving         bool // with a progress line
	line           *progressLine
}

func (p *person) Event(e transfer.Event) {
	switch {
	case e.Kind == transfer.Started && e.Tree && e.Totals == nil:
		p.line.began(e.Source)
	case e.Kind == transfer.Started && p.moving:
		p.line = startLine(p.Console, e)
	case e.Kind == transfer.Progress:
		p.line.update(e)
	case e.Kind == transfer.Retried:
		p.line.update(e)
		p.Console.Say(e.Message)
		if cause := e.Err.Error(); p.verbose && !strings.Contains(e.Message, cause) {
			p.Console.Say("the cause: " + cause)
		}
	case e.Kind == transfer.Renewed:
		p.line.update(e)
		if !p.quiet {
			p.Console.Say(e.Message)
		}
	case e.Kind == transfer.Planned:
		fmt.Fprintln(p.planned, ui.Printable(fmt.Sprintf("would copy %s to %s", sourceOf(e),
			targetOf(e))))
	case e.Kind == transfer.Skipped && !p.quiet:
		p.Console.Say(fmt.Sprintf("%s: skipped: %s", sourceOf(e), e.Message))
	case e.Kind == transfer.Warning || e.Kind == transfer.Note && !p.quiet:
		p.Console.Say(fmt.Sprintf("%s: %s", targetOf(e), e.Message))
	case e.Kind == transfer.Done:
		p.done(e)
	case e.Kind == transfer.Failed:
		if !e.Tree {
			p.endLine(e)
		}
		if !ui.ReaderGone(e.Err) {
			p.Console.Say(e.Message + p.advice(e.Err))
		}
	case e.Kind == transfer.Ended:
		p.ended(e)
	}
}

// done reports a copied file.
func (p *person) done(e transfer.Event) {
	speed := ""
	if !e.Tree { // there is one line for the whole tree
		p.endLine(e)
		speed = " in " + speedOf(e, e.Bytes-e.Resumed)
	}
	if p.verbose {
		p.Console.Tell(fmt.Sprintf("copied %s to %s: %s", sourceOf(e), targetOf(e),
			ui.Amount(float64(e.Bytes))) + resumedText(e.Resumed) + speed + hashOf(e))
	}
}

// endLine ends the progress line.
func (p *person) endLine(e transfer.Event) {
	p.line.finish(e)
	p.line = nil
}

// advice suggests a flag that the user may have forgotten.
func (p *person) advice(err error) string {
	var path *fs.PathError
	if !p.look.Recursive && errors.Is(err, transfer.ErrIsDirectory) && errors.As(err, &path) &&
		path.Op == "read" {
		return " (-r copies directories)"
	}
	return ""
}

// ended sums up a tree.
func (p *person) ended(e transfer.Event) {
	if p.endTree(e); errors.As(e.Err, new(*ui.OutputError)) {
		return
	}
	if t := e.Totals; p.look.DryRun && e.Err == nil {
		if !p.quiet {
			p.Console.Tell(fmt.Sprintf("%s: %s, %s, would be copied", sourceOf(e),
				ui.Count(t.PlannedFiles, "file", "files"), ui.Amount(float64(t.PlannedBytes))))
		}
	} else if p.verbose || p.moving && e.Err == nil || t.Failed > 1 && !p.quiet ||
		e.Err != nil && t.Failed == 0 {
		p.Console.Tell(fmt.Sprintf("%s: %s", sourceOf(e), summaryOf(e)))
	}
}

// endTree ends the progress line of a tree, and reports its error unless a summary does.
func (p *person) endTree(e transfer.Event) {
	p.endLine(e)
	if unreported(e) && e.Totals.Vanished == 0 {
		p.Console.Say(e.Message)
	}
}

// resumedText describes the part of a copy that existed before.
func resumedText(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s were already there)", ui.Amount(float64(bytes)))
}

// unreported reports whether a tree has ended with an error that no file has reported. An
// interruption needs no report.
func unreported(e transfer.Event) bool {
	return e.Err != nil && e.Totals.Failed == 0 && !errors.Is(e.Err, context.Canceled) &&
		!errors.As(e.Err, new(*ui.Interruption)) && !errors.As(e.Err, new(*ui.OutputError))
}

// speedOf describes the time taken, and the rate without pauses.
func speedOf(e transfer.Event, bytes int64) string {
	paused := ""
	if e.Paused >= time.Second {
		paused = fmt.Sprintf(" (%.1f s of them paused)", e.Paused.Seconds())
	}
	return fmt.Sprintf("%.1f s%s, %s%s", e.Elapsed.Seconds(), paused,
		ui.Rate(bytes, e.Elapsed-e.Paused), boundText(e.Bottleneck))
}

// boundText names the limit on the speed, if known.
func boundText(b transfer.Bottleneck) string {
	switch b {
	case "":
		return ""
	case transfer.BottleneckRateLimit:
		return ", limited by --limit"
	}
	return ", limited by the " + string(b)
}

// A count is a labelled number in a summary, which omits zeros.
type count struct {
	n    int64
	what string
}

// counts returns the text for counts, each after a separator.
func counts(separator string, list ...count) (text string) {
	for _, c := range list {
		if c.n > 0 {
			text += fmt.Sprintf("%s%d %s", separator, c.n, c.what)
		}
	}
	return text
}

// summaryOf describes the result for a tree.
func summaryOf(e transfer.Event) string {
	t := e.Totals
	text := fmt.Sprintf("%s, %s, %s; %s%s in %s", ui.Count(t.Files, "file", "files"),
		ui.Count(t.Directories, "directory", "directories"), ui.Count(t.Links, "link", "links"),
		ui.Amount(float64(t.Bytes)), resumedText(t.Resumed), speedOf(e, t.Bytes-t.Resumed))
	if t.Kept > 0 {
		text += fmt.Sprintf("; %s already there", ui.Count(t.Kept, "file was", "files were"))
	}
	text += counts("; ", count{t.Skipped, "skipped" + youngOf(t)}, count{t.Removed, "removed from the source"},
		count{t.Failed, "failed"})
	if !t.Complete {
		text += "; not all of the tree was read"
	}
	return text
}

// youngOf describes how many skipped files were too young.
func youngOf(t *transfer.Totals) string {
	if t.Young == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d by --min-age)", t.Young)
}

func (p *person) Failed(err error) { p.Console.Say(err.Error()) }

func (p *person) End(int) {}

// hashOf describes the hash and verification of a copy, and the removal of its source.
func hashOf(e transfer.Event) (text string) {
	if !e.Hash.IsZero() {
		text = ", " + e.Hash.String()
	}
	switch e.Verified {
	case transfer.VerifiedByHash:
		text += ", verified by the host's hash"
	case transfer.VerifiedByReading:
		text += ", verified by reading it back"
	}
	if e.Removed {
		text += ", removed from the source"
	}
	return text
}

// sourceOf returns the source of a copy as a user would type it.
func sourceOf(e transfer.Event) string { return typed(e.SourceHost, e.Source) }

// targetOf returns the target of a copy as a user would type it.
func targetOf(e transfer.Event) string { return typed(e.TargetHost, e.Target) }

func typed(host, path string) string {
	if host == "" {
		return path
	}
	return host + ":" + path
}
