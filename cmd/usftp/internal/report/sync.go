package report

import (
	"errors"
	"fmt"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// NewSync returns the report for a sync.
func NewSync(a *ui.App, flags *opt.Report, dryRun bool) Reporter {
	if flags.JSON {
		return &eventWriter{out: a.Out, console: a.Console}
	}
	return &syncer{*newPerson(a, flags, Look{Recursive: true, DryRun: dryRun})}
}

// A syncer reports the actions of a sync to a person.
type syncer struct{ person }

func (s *syncer) Event(e transfer.Event) {
	switch e.Kind {
	case transfer.Planned:
		fmt.Fprintln(s.planned, ui.Printable("would "+s.change("copy", e)))
	case transfer.Done:
		if s.verbose {
			s.Console.Tell(s.change("copied", e) + hashOf(e))
		}
	case transfer.Deleted:
		if s.verbose {
			s.Console.Tell("deleted " + targetOf(e))
		}
	case transfer.Ended:
		s.ended(e)
	case transfer.Note:
		if s.verbose || s.Console.Terminal() { // cron would mail it
			s.person.Event(e)
		}
	default:
		s.person.Event(e)
	}
}

// change describes the action on an entry and, with -v, its reason.
func (s *syncer) change(verb string, e transfer.Event) (text string) {
	switch e.Reason {
	case transfer.ReasonMode, transfer.ReasonOwner, transfer.ReasonTouch:
		text = "set the attributes of " + targetOf(e)
	case transfer.ReasonExtra:
		text = "delete " + targetOf(e)
	default:
		text = fmt.Sprintf("%s %s to %s", verb, sourceOf(e), targetOf(e))
	}
	if s.verbose {
		text += " (" + string(e.Reason) + ")"
	}
	return text
}

// ended ends the progress line, and sums up.
func (s *syncer) ended(e transfer.Event) {
	t := e.Totals
	if s.endTree(e); s.quiet || errors.As(e.Err, new(*ui.OutputError)) {
		return
	}
	if e.Err == nil && !s.verbose && !s.look.DryRun && !s.Console.Terminal() {
		return // cron would mail it
	}
	deleted := "deleted"
	copied := ui.Count(t.Files, "file", "files") + " copied"
	bytes := t.Bytes
	if s.look.DryRun {
		bytes = t.PlannedBytes - t.KeptBytes
		copied = ui.Count(t.PlannedFiles-t.Kept, "file", "files") + " would be copied"
		deleted = "would be deleted"
	}
	links := "links"
	if t.Links == 1 {
		links = "link"
	}
	text := fmt.Sprintf("%s: %s, %s%s; %d equal", targetOf(e), copied, ui.Amount(float64(bytes)),
		resumedText(t.Resumed), t.Kept)
	text += counts(", ", count{t.Links, links}, count{t.Attrs, "with new attributes"},
		count{t.Deleted, deleted}, count{t.Removed, "removed from the source"},
		count{t.Skipped, "skipped" + youngOf(t)}, count{t.Vanished, "vanished"},
		count{t.Failed, "failed"})
	if !t.Complete {
		text += "; not all of the source was read"
	}
	s.Console.Tell(fmt.Sprintf("%s; %.1f s", text, e.Elapsed.Seconds()) + boundText(e.Bottleneck))
}
