package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/pool"
)

// Totals report the progress of a tree. The planned numbers grow until Complete.
type Totals struct {
	PlannedFiles int64 `json:"planned_files"`
	PlannedBytes int64 `json:"planned_bytes"`
	Complete     bool  `json:"complete"` // the whole tree has been listed

	Files       int64 `json:"files"`             // copied; in a Check, those that match the list
	Bytes       int64 `json:"bytes"`             // copied, including files in progress
	Resumed     int64 `json:"resumed,omitempty"` // of Bytes, those copied by an earlier run
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	Kept        int64 `json:"kept"`       // files that were up to date
	KeptBytes   int64 `json:"kept_bytes"` // their bytes; part of PlannedBytes but not of Bytes
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`

	Missing  int64 `json:"missing,omitempty"`  // of those that failed: listed but not present
	Unlisted int64 `json:"unlisted,omitempty"` // not in the list; skipped, or failed if Strict

	// Of a Sync:
	Attrs    int64 `json:"attrs,omitempty"`    // entries that only got attributes; files are in Kept too
	Deleted  int64 `json:"deleted,omitempty"`  // files and links deleted or moved away
	Vanished int64 `json:"vanished,omitempty"` // entries that vanished from the source

	Active    []string `json:"active,omitempty"`    // sources of a few large files in progress
	Finishing int64    `json:"finishing,omitempty"` // large files of which all has arrived; see Event
}

// counts are the atomic counters behind Totals.
type counts struct {
	plannedFiles, plannedBytes, files, bytes, directories, links, kept, keptBytes, skipped, failed,
	missing, unlisted, entries, resumed, attrs, deleted, vanished atomic.Int64
	complete atomic.Bool
}

// treeReport holds what is reported about a tree.
type treeReport struct {
	mu     sync.Mutex
	first  error
	active []*activity // oldest first
	limits bottlenecks
}

// activity is a large file in progress, from its first attempt until it is counted as copied.
type activity struct {
	name     string
	position func() int64 // nil between attempts and after the last one
	reached  int64        // the furthest of any attempt
	finishes bool         // all of it has arrived
}

// bytes returns how far the file has come. It never decreases.
func (a *activity) bytes() int64 {
	if a.position != nil {
		a.reached = max(a.reached, a.position())
	}
	return a.reached
}

// bottleneck returns what limited the tree: what limited most of its bytes, or else the verdict on
// the whole.
func (t *tree) bottleneck(w *witness) Bottleneck {
	if w == nil { // this machine's kernel, or the host, does most of the work
		return ""
	}
	bytes := t.counts.bytes.Load()
	w.far, w.limit = t.budget.trip >= flow.StripeTrip, t.options.RateLimit
	whole := w.end(bytes)
	if most := t.report.limits.verdict(bytes); most != "" {
		return most
	}
	return whole
}

// summarize completes the summary and reports the end.
func (t *tree) summarize(s *Summary) (err error) {
	s.Totals, s.Elapsed = t.totals(), time.Since(t.began)
	s.Active = nil
	t.report.mu.Lock()
	first := t.report.first
	t.report.mu.Unlock()
	if first == nil && t.ctx.Err() != nil {
		first = newError(t.job, t.route.Source, t.root.target, context.Cause(t.ctx))
	}
	if first == nil && s.Vanished > 0 {
		first = newError(t.job, t.route.Source, t.root.target, ErrVanished)
	}
	e := &Event{Kind: Ended, Size: s.PlannedBytes, Bytes: s.Bytes, Elapsed: s.Elapsed,
		Outcome: Outcome{Bottleneck: s.Bottleneck}, Totals: &s.Totals}
	if first != nil {
		left := t.leftBehind()
		if left != "" {
			t.warn(t.route.Source, t.root.target, left)
		}
		err = &TreeError{Failed: max(1, s.Failed), First: first, LeftBehind: left,
			checking: t.check}
		e.Err, e.Message = err, err.Error()
	}
	t.tellTotals(e)
	return err
}

func (t *tree) totals() Totals {
	n := &t.counts
	s := Totals{
		PlannedFiles: n.plannedFiles.Load(), PlannedBytes: n.plannedBytes.Load(),
		Complete: n.complete.Load(), Files: n.files.Load(),
		Directories: n.directories.Load(), Links: n.links.Load(), Kept: n.kept.Load(),
		KeptBytes: n.keptBytes.Load(), Skipped: n.skipped.Load(), Failed: n.failed.Load(),
		Missing: n.missing.Load(), Unlisted: n.unlisted.Load(), Attrs: n.attrs.Load(),
		Deleted: n.deleted.Load(), Vanished: n.vanished.Load(),
	}
	resumed := n.resumed.Load()
	t.report.mu.Lock()
	defer t.report.mu.Unlock()
	s.Bytes = n.bytes.Load() // under the lock, since finished files move from active to bytes
	for _, a := range t.report.active {
		s.Bytes += a.bytes()
		if a.finishes {
			s.Finishing++
		}
		if len(s.Active) < 4 {
			s.Active = append(s.Active, a.name)
		}
	}
	s.Resumed = min(resumed, s.Bytes)
	return s
}

// tellTotals sends an event about the whole tree.
func (t *tree) tellTotals(e *Event) {
	e.Source, e.Target = t.route.Source, t.root.target
	t.tell(e)
}

// reportTotals reports the totals until stop is called.
func (t *tree) reportTotals() (stop func()) {
	if t.listener == nil {
		return func() {}
	}
	t.tellTotals(&Event{Kind: Started, Size: -1, Totals: &Totals{}})
	return every(t.options.progressEvery(), func() {
		totals := t.totals()
		t.tellTotals(&Event{Kind: Progress, Size: totals.PlannedBytes, Bytes: totals.Bytes,
			Elapsed: time.Since(t.began), Totals: &totals})
	})
}

// watch counts a file as active until settled is called. After stop it still counts with what the
// attempt reached, since the file has yet to get its name, or another attempt.
func (t *tree) watch(c *fileCopy, position func() int64) (stop func()) {
	r := &t.report
	r.mu.Lock()
	defer r.mu.Unlock()
	a := c.activity
	if a == nil {
		a = &activity{name: c.source}
		c.activity = a
		r.active = append(r.active, a)
	}
	a.position = position
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		a.bytes()
		a.position = nil
	}
}

// finishes counts a file as one of which all has arrived until stop is called.
func (t *tree) finishes(c *fileCopy) (stop func()) {
	finishes := func(is bool) {
		t.report.mu.Lock()
		defer t.report.mu.Unlock()
		if c.activity != nil {
			c.activity.finishes = is
		}
	}
	finishes(true)
	return func() { finishes(false) }
}

// settled counts the bytes of a finished file, which is active no longer.
func (t *tree) settled(c *fileCopy, bytes int64) {
	if c.activity == nil {
		t.counts.bytes.Add(bytes)
		return
	}
	r := &t.report
	r.mu.Lock()
	defer r.mu.Unlock()
	t.counts.bytes.Add(bytes)
	r.active = slices.DeleteFunc(r.active, func(other *activity) bool { return other == c.activity })
}

// fail counts an entry that failed. name is its name in a list, if it has one.
func (t *tree) fail(name, source, target string, err error) {
	if t.sync.vanished(source, err) || t.ending(err) {
		return
	}
	var ours *Error
	if !errors.As(err, &ours) {
		err = newError(t.job, source, target, err)
	}
	t.counts.failed.Add(1)
	t.tell((&Event{Route: Route{Source: source, Target: target}, Size: -1, Name: name}).failed(err))
	t.failFirst(err)
}

// ending reports whether an error only means that the whole copy is ending, which is reported once
// and not for each file.
func (t *tree) ending(err error) bool {
	if t.ctx.Err() != nil {
		return true
	}
	conns := t.conns()
	if !slices.ContainsFunc(conns, (*pool.Conn).Ended) {
		return false
	}
	for i := len(conns) - 1; i >= 0; i-- {
		if gaveUp := conns[i].Why(err); gaveUp != err {
			if err = gaveUp; i > 0 {
				err = ofSource(err)
			}
			break
		}
	}
	failure := newError(t.job, t.route.Source, t.root.target, err)
	t.failFirst(failure)
	t.cancel(err)
	return true
}

// failFirst keeps the first error, and ends the copy if StopOnError is set.
func (t *tree) failFirst(err error) {
	t.report.mu.Lock()
	if t.report.first == nil {
		t.report.first = err
	}
	t.report.mu.Unlock()
	if t.options.StopOnError {
		t.cancel(err)
	}
}

// skip counts an entry that is not copied.
func (t *tree) skip(source, why string) {
	t.counts.skipped.Add(1)
	t.tell(&Event{Kind: Skipped, Route: Route{Source: source}, Size: -1, Message: why})
}

func (t *tree) note(source, target, message string) { t.say(Note, source, target, message) }

func (t *tree) warn(source, target, message string) { t.say(Warning, source, target, message) }

func (t *tree) say(kind Kind, source, target, message string) {
	t.tell(&Event{Kind: kind, Route: Route{Source: source, Target: target}, Size: -1, Message: message})
}
