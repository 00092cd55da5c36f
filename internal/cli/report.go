package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/usftp/usftp/transfer"
)

// A reporter tells what happens: to a person or to a program.
type reporter interface {
	event(transfer.Event) // of a job
	failed(error)         // outside of any job
	end(code int)
}

func (a *app) reporter(flags *copyFlags, target place) reporter {
	if flags.json {
		return newEventWriter(a.out, a.console)
	}
	p := &person{console: a.console, quiet: flags.quiet, verbose: flags.verbose > 0,
		recursive: flags.recursive, dryRun: flags.dryRun, planned: a.out}
	// A line that moves would tear apart what is shown on the same screen.
	p.moving = a.console.terminal() && !flags.quiet && !flags.noProgress && !flags.dryRun &&
		!(target.stream && isTerminal(a.stdout))
	return p
}

// A person reads standard error; only what a dry run would copy goes to standard output, since it
// is what was asked for.
type person struct {
	console        *console
	planned        io.Writer
	quiet, verbose bool
	recursive      bool
	dryRun         bool
	moving         bool // with a progress line
	line           *progressLine
}

func (p *person) event(e transfer.Event) {
	if e.Tree {
		p.treeEvent(e)
		return
	}
	switch e.Kind {
	case transfer.Started:
		if p.moving {
			p.line = startLine(p.console, sourceOf(e), e.Size)
		}
	case transfer.Progress:
		p.line.update(e)
	case transfer.Retried:
		p.line.retried()
		p.console.say(e.Message)
	case transfer.Note:
		if !p.quiet {
			p.console.say(fmt.Sprintf("%s: %s", targetOf(e), e.Message))
		}
	case transfer.Skipped: // what a pattern matches
		if !p.quiet {
			p.console.say(fmt.Sprintf("%s: skipped: %s", sourceOf(e), e.Message))
		}
	case transfer.Done:
		p.line.finish(e, true)
		p.line = nil
		if p.verbose {
			p.console.say(fmt.Sprintf("copied %s to %s: %s%s in %.1f s, %s", sourceOf(e),
				targetOf(e), amount(float64(e.Bytes)), resumedText(e.Resumed), e.Elapsed.Seconds(),
				rate(e.Bytes-e.Resumed, e.Elapsed)) + boundText(e.Bound) + hashOf(e))
		}
	case transfer.Failed:
		p.line.finish(e, false)
		p.line = nil
		if !readerGone(e.Err) {
			p.console.say(e.Message + p.advice(e.Err))
		}
	}
}

// advice says what a person may have forgotten.
func (p *person) advice(err error) string {
	var path *fs.PathError
	if !p.recursive && errors.Is(err, transfer.ErrIsDirectory) && errors.As(err, &path) &&
		path.Op == "read" {
		return " (-r copies directories)"
	}
	return ""
}

// treeEvent is for the events of a tree and of what lies in it: one line for the whole, and words
// for what goes wrong.
func (p *person) treeEvent(e transfer.Event) {
	switch {
	case e.Kind == transfer.Retried:
		p.line.retried()
		p.console.say(e.Message)
	case e.Kind == transfer.Started && e.Totals != nil && p.moving:
		p.line = startLine(p.console, sourceOf(e), -1)
		p.line.under.root = e.Source
		p.line.updateTree(e)
	case e.Kind == transfer.Started:
		p.line.began(e.Source)
	case e.Kind == transfer.Progress:
		p.line.updateTree(e)
	case e.Kind == transfer.Planned:
		fmt.Fprintln(p.planned, printable(fmt.Sprintf("would copy %s to %s", sourceOf(e),
			targetOf(e))))
	case e.Kind == transfer.Skipped && !p.quiet:
		p.console.say(fmt.Sprintf("%s: skipped: %s", sourceOf(e), e.Message))
	case e.Kind == transfer.Note && !p.quiet:
		p.console.say(fmt.Sprintf("%s: %s", targetOf(e), e.Message))
	case e.Kind == transfer.Done && p.verbose:
		p.console.say(fmt.Sprintf("copied %s to %s: %s", sourceOf(e), targetOf(e),
			amount(float64(e.Bytes))) + resumedText(e.Resumed) + hashOf(e))
	case e.Kind == transfer.Failed:
		p.console.say(e.Message)
	case e.Kind == transfer.Ended:
		p.line.updateTree(e)
		p.line.finish(e, e.Err == nil)
		p.line = nil
		if untold(e) {
			p.console.say(e.Message)
		}
		if errors.As(e.Err, new(*outputError)) {
			return
		}
		if t := e.Totals; p.dryRun && e.Err == nil {
			if !p.quiet {
				p.console.say(fmt.Sprintf("%s: %s, %s, would be copied", sourceOf(e),
					count(t.PlannedFiles, "file", "files"), amount(float64(t.PlannedBytes))))
			}
		} else if p.verbose || p.moving && e.Err == nil || t.Failed > 1 && !p.quiet ||
			e.Err != nil && t.Failed == 0 {
			p.console.say(fmt.Sprintf("%s: %s", sourceOf(e), summaryOf(t)))
		}
	}
}

// resumedText says how much of a copy was there before.
func resumedText(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s of it were there already)", amount(float64(bytes)))
}

// untold tells whether all of a tree has ended, and no file has said why. What a person has
// interrupted he knows.
func untold(e transfer.Event) bool {
	return e.Err != nil && e.Totals.Failed == 0 && !errors.Is(e.Err, context.Canceled) &&
		!errors.As(e.Err, new(*interruption)) && !errors.As(e.Err, new(*outputError))
}

// boundText says what bound the speed, where that is known.
func boundText(b transfer.Bound) string {
	switch b {
	case "":
		return ""
	case transfer.BoundLimit:
		return ", bound by --limit"
	}
	return ", bound by the " + string(b)
}

// summaryOf says what has become of a tree.
func summaryOf(t *transfer.Totals) string {
	text := fmt.Sprintf("%s, %s, %s; %s%s in %.1f s, %s", count(t.Files, "file", "files"),
		count(t.Directories, "directory", "directories"), count(t.Links, "link", "links"),
		amount(float64(t.Bytes)), resumedText(t.Resumed), t.Elapsed.Seconds(),
		rate(t.Bytes-t.Resumed, t.Elapsed)) + boundText(t.Bound)
	if t.Kept > 0 {
		text += fmt.Sprintf("; %s there already", count(t.Kept, "file was", "files were"))
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf("; %d skipped", t.Skipped)
	}
	if t.Failed > 0 {
		text += fmt.Sprintf("; %d failed", t.Failed)
	}
	if !t.Complete {
		text += "; not all of the tree was looked at"
	}
	return text
}

func (p *person) failed(err error) { p.console.say(err.Error()) }

func (p *person) end(int) {}

// hashOf says what is known of a copy's contents.
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
	return text
}

// sourceOf names the source of a job as a person would type it.
func sourceOf(e transfer.Event) string {
	switch e.Direction {
	case transfer.Download:
		return e.Host + ":" + e.Source
	case transfer.Relay:
		return e.SourceHost + ":" + e.Source
	case transfer.Checking:
		if e.Host != "" {
			return e.Host + ":" + e.Source
		}
	}
	return e.Source
}

// targetOf names the target of a job.
func targetOf(e transfer.Event) string {
	switch e.Direction {
	case transfer.Upload, transfer.Relay:
		return e.Host + ":" + e.Target
	}
	return e.Target
}
