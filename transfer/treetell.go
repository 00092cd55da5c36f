package transfer

import (
	"errors"
	"slices"
	"time"

	"github.com/usftp/usftp"
)

func (t *treeRun) totals() Totals {
	s := Totals{
		PlannedFiles: t.plannedFiles.Load(), PlannedBytes: t.plannedBytes.Load(), Complete: t.complete.Load(),
		Files: t.files.Load(), Bytes: t.bytes.Load(), Directories: t.directories.Load(), Links: t.links.Load(),
		Kept: t.kept.Load(), KeptBytes: t.keptBytes.Load(), Skipped: t.skipped.Load(), Failed: t.failed.Load(), Missing: t.missing.Load(), Unlisted: t.strangers.Load(), Elapsed: time.Since(t.began),
	}
	resumed := t.resumed.Load()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.active {
		s.Bytes += a.progress()
		if len(s.Active) < 4 {
			s.Active = append(s.Active, a.name)
		}
	}
	s.Resumed = min(resumed, s.Bytes)
	return s
}

// tell tells the listener, which hears one event at a time.
func (t *treeRun) tell(e Event) {
	if t.Options.Events == nil {
		return
	}
	e.Time, e.Host, e.SourceHost, e.Direction, e.Tree = time.Now(), t.Host.Name, t.From.Name, t.Direction, true
	t.Options.Events(e)
}

// reportTotals tells of the totals until the returned function is called.
func (t *treeRun) reportTotals() (stop func()) {
	if t.Options.Events == nil {
		return func() {}
	}
	tell := func() {
		totals := t.totals()
		t.tell(Event{Kind: Progress, Source: t.Source, Target: t.root.target,
			Size: totals.PlannedBytes, Bytes: totals.Bytes, Elapsed: totals.Elapsed,
			Totals: &totals})
	}
	t.tell(Event{Kind: Started, Source: t.Source, Target: t.root.target, Size: -1,
		Totals: &Totals{}})
	every := t.Options.ProgressEvery
	if every <= 0 {
		every = defaultProgressEvery
	}
	return each(every, tell)
}

// watch counts a file under way among the active ones.
func (t *treeRun) watch(name string, progress func() int64) (stop func()) {
	a := &activity{name, progress}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active = append(t.active, a)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.active = slices.DeleteFunc(t.active, func(other *activity) bool { return other == a })
	}
}

// failure makes an error of one entry's.
func (t *treeRun) failure(source, target string, err error) error {
	var ours *Error
	if errors.As(err, &ours) {
		return err
	}
	return &Error{Host: t.Host.Name, From: t.From.Name, Direction: t.Direction, Source: source,
		Target: target, Err: err}
}

// fail counts an entry that could not be copied, and tells.
func (t *treeRun) fail(source, target string, err error) { t.failNamed("", source, target, err) }

// failNamed is fail for an entry that has a name in a list.
func (t *treeRun) failNamed(name, source, target string, err error) {
	if t.ending(err) {
		return
	}
	err = t.failure(source, target, err)
	t.failed.Add(1)
	t.tell(Event{Kind: Failed, Source: source, Target: target, Size: -1, Name: name, Err: err,
		Message: err.Error()})
	t.failedFirst(err)
}

// ending tells whether an error is only that everything ends, which is said once and not for each
// file.
func (t *treeRun) ending(err error) bool {
	if t.ctx.Err() != nil {
		return true
	}
	if !t.line.ended() && (t.from == nil || !t.from.ended()) {
		return false
	}
	err = why(t.line, t.from, err)
	t.failedFirst(t.failure(t.Source, t.root.target, err))
	t.cancel(err)
	return true
}

// failedFirst keeps the first error, and ends all where that is asked for.
func (t *treeRun) failedFirst(err error) {
	t.mu.Lock()
	if t.first == nil {
		t.first = err
	}
	t.mu.Unlock()
	if t.TreeOptions.StopOnError {
		t.cancel(err)
	}
}

// skip counts an entry that is not copied, and says why.
func (t *treeRun) skip(source, why string) {
	t.skipped.Add(1)
	t.tell(Event{Kind: Skipped, Source: source, Size: -1, Message: why})
}

// over does something about an entry over the tree's connection; see [lifeline.over].
func (t *treeRun) over(source string, do func(client *usftp.Client, again bool) error) error {
	return t.overLine(t.line, source, do)
}

// overLine is over for one of a relay's two connections.
func (t *treeRun) overLine(line *lifeline, source string,
	do func(client *usftp.Client, again bool) error) error {
	return line.over(func(e Event) {
		e.Source, e.Size, e.Message = source, -1, t.doing()+" "+source+": "+e.Message
		t.tell(e)
	}, do)
}

// doing says what is done.
func (t *treeRun) doing() string {
	if t.Direction == Checking {
		return "checking"
	}
	return "copying"
}

func (t *treeRun) note(source, target, message string) {
	t.tell(Event{Kind: Note, Source: source, Target: target, Size: -1, Message: message})
}
