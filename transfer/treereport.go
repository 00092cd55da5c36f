package transfer

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/bottleneck"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// Totals report the progress of a tree.
type Totals struct {
	PlannedTotals

	Files int64 `json:"files"` // copied; in a Check, files that match the list
	// Bytes counts the bytes copied, including those of files in progress, and in the end those of
	// files that were cut off and are kept for Options.Resume.
	Bytes       int64 `json:"bytes"`
	Resumed     int64 `json:"resumed,omitempty"` // of Bytes, those copied by an earlier run
	Directories int64 `json:"directories"`
	Links       int64 `json:"links"`
	Kept        int64 `json:"kept"`       // files that were up to date
	KeptBytes   int64 `json:"kept_bytes"` // their bytes; part of PlannedBytes but not of Bytes
	Skipped     int64 `json:"skipped"`
	Failed      int64 `json:"failed"`

	Removed int64 `json:"removed,omitempty"` // files and links, from the source

	CheckTotals
	SyncTotals

	Active    []string `json:"active,omitempty"`    // sources of a few large files in progress
	Finishing int64    `json:"finishing,omitempty"` // large files in that state; see Position
}

// PlannedTotals count the files found so far. They grow until Complete.
type PlannedTotals struct {
	PlannedFiles int64 `json:"planned_files"`
	PlannedBytes int64 `json:"planned_bytes"`
	Complete     bool  `json:"complete"` // the whole tree has been listed

	// Young counts the Skipped files that are younger than MinAge.
	Young int64 `json:"young,omitempty"`

	// The source's files and bytes by TreeOptions.CountAhead, 0 before that is done.
	CountedFiles int64 `json:"counted_files,omitempty"`
	CountedBytes int64 `json:"counted_bytes,omitempty"`
}

// CheckTotals are the totals that only a Check has.
type CheckTotals struct {
	Missing  int64 `json:"missing,omitempty"`  // part of Failed: listed but not present
	Unlisted int64 `json:"unlisted,omitempty"` // not in the list; skipped, or failed if Strict
}

// SyncTotals are the totals that only a Sync has.
type SyncTotals struct {
	// Attrs counts entries that only got attributes; such files are in Kept too.
	Attrs    int64 `json:"attrs,omitempty"`
	Deleted  int64 `json:"deleted,omitempty"`  // files and links deleted or moved away
	Vanished int64 `json:"vanished,omitempty"` // entries that vanished from the source
}

// treeReport counts the outcomes of a tree's entries, and reports them.
type treeReport struct {
	t       *tree
	entries atomic.Int64 // found in the source
	// files whose contents a Sync is comparing
	comparing atomic.Int64

	mu          sync.Mutex
	sums        Totals         // without the files in progress
	first       error          // that was reported, or why the whole copy ended
	ended       bool           // the connection was given up
	active      []*activity    // oldest first
	concludes   Phase          // "" until all files have been copied
	bottlenecks bottleneck.Sum // of the files
	unset       dirUnset
	plainLinks  sync.Once // reports once that links get no attributes
}

// activity is a large file in progress, from its first attempt until it is counted as copied.
type activity struct {
	name     string
	position func() int64 // nil between attempts and after the last one
	reached  int64        // the furthest of any attempt
	phase    func() Phase // nil before the whole file has arrived
}

// bytes returns how far the file has come. It never decreases.
func (a *activity) bytes() int64 {
	if a.position != nil {
		a.reached = max(a.reached, a.position())
	}
	return a.reached
}

// bottleneck returns the tree's limiting factor: the one of most of its bytes, or else the
// sampler's verdict on the whole.
func (r *treeReport) bottleneck(w *bottleneck.Sampler) Bottleneck {
	t := r.t
	if w == nil { // this machine's kernel, or the host, does most of the work
		return ""
	}
	bytes := r.totals().Bytes
	w.Far, w.Limit = t.copies.Budget.Trip >= flow.StripeTrip, t.options.RateLimit
	whole := Bottleneck(w.End(bytes))
	if whole == BottleneckRateLimit {
		return whole
	}
	if most := r.bottlenecks.Verdict(bytes); most != "" {
		return Bottleneck(most)
	}
	return whole
}

// summarize completes the summary and reports the end.
func (r *treeReport) summarize(s *Summary) (err error) {
	t := r.t
	s.Totals, s.Elapsed = r.totals(), time.Since(t.began)
	s.Active = nil
	r.mu.Lock()
	first, what := r.first, t.rules.failed
	if r.ended {
		what = ""
	}
	r.mu.Unlock()
	if first == nil && t.ctx.Err() != nil {
		first = newError(t.job, t.route.Source, t.root.target, context.Cause(t.ctx))
	}
	if first == nil && s.Vanished > 0 {
		first = newError(t.job, t.route.Source, t.root.target, ErrVanished)
	}
	e := &Event{Kind: Ended, Size: s.PlannedBytes, Position: Position{Bytes: s.Bytes,
		Elapsed: s.Elapsed, Paused: t.copies.Pauses.Sum()},
		Outcome: Outcome{Bottleneck: s.Bottleneck}, Totals: &s.Totals}
	if first != nil {
		left := t.leftBehind()
		if left != "" {
			t.root.warn(left)
		}
		err = &TreeError{Failed: max(1, s.Failed), First: first, LeftBehind: left, what: what}
		e.Err, e.Message = err, err.Error()
	}
	r.tellTotals(e)
	return err
}

func (r *treeReport) totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sums
	for _, a := range r.active {
		s.Bytes += a.bytes()
		if a.phase != nil {
			s.Finishing++
		}
		if len(s.Active) < 4 {
			s.Active = append(s.Active, a.name)
		}
	}
	s.Resumed = min(s.Resumed, s.Bytes)
	return s
}

// phase returns the phase to show if nothing arrives: the one of the oldest file that has arrived,
// or the next one when all files have. It is "" while others are still to come.
func (r *treeReport) phase() Phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.active {
		if a.phase != nil {
			return a.phase()
		}
	}
	if r.comparing.Load() > 0 {
		return PhaseComparing
	}
	return r.concludes
}

// conclude begins the phase that follows when all files have been copied.
func (r *treeReport) conclude() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.concludes = cmp.Or(r.t.rules.last, phases[r.t.copies.Settling()])
}

// count adds to one of r.sums.
func (r *treeReport) count(sum *int64, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*sum += n
}

// tellTotals sends an event about the whole tree.
func (r *treeReport) tellTotals(e *Event) {
	t := r.t
	e.Source, e.Target = t.route.Source, t.root.target
	t.tell(e)
}

// reportTotals reports the totals until stop is called.
func (r *treeReport) reportTotals() (stop func()) {
	t := r.t
	if t.listener == nil {
		return func() {}
	}
	r.tellTotals(&Event{Kind: Started, Size: -1, Totals: &Totals{}})
	stopCount := func() {}
	if t.options.CountAhead {
		stopCount = r.countAhead()
	}
	stopTelling := pace.Every(t.options.progressInterval(), func() {
		totals := r.totals()
		e := &Event{Kind: Progress, Size: totals.PlannedBytes, Totals: &totals,
			Position: Position{Bytes: totals.Bytes, Phase: r.phase(),
				Elapsed: time.Since(t.began), Paused: t.copies.Pauses.Sum()}}
		e.addStall(t.job)
		r.tellTotals(e)
	})
	return func() {
		stopCount()
		stopTelling()
	}
}

// watch counts a file as active until finished is called. After stop it still counts with the bytes
// the attempt reached, since the file has yet to get its name, or another attempt.
func (r *treeReport) watch(c *fileTask, position func() int64) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := c.activity
	if a == nil {
		a = &activity{name: c.Source}
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

// finishes counts a file, all of which has arrived, as Finishing until stop is called.
func (r *treeReport) finishes(c *fileTask) (stop func()) {
	finishes := func(phase func() Phase) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.activity != nil {
			c.activity.phase = phase
		}
	}
	finishes(c.phase)
	return func() { finishes(nil) }
}

// finished counts the bytes of a finished file, which is active no longer.
func (r *treeReport) finished(c *fileTask, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums.Bytes += bytes
	if c.activity == nil {
		return
	}
	r.active = slices.DeleteFunc(r.active, func(other *activity) bool {
		return other == c.activity
	})
}

// planned counts an entry that is a file, unless it is counted already.
func (r *treeReport) planned(e *entry) {
	if e.planned || !e.info.Mode.IsRegular() {
		return
	}
	e.planned = true
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums.PlannedFiles++
	r.sums.PlannedBytes += max(0, e.info.Size)
	if r.sums.PlannedBytes < 0 { // sizes come from the server and may add up to anything
		r.sums.PlannedBytes = math.MaxInt64 / 2
	}
}

// kept counts a file that is already up to date.
func (r *treeReport) kept(f *endpoint.Info) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums.Kept++
	r.sums.KeptBytes += max(0, f.Size)
}

// equal counts an entry of a sync that is already equal.
func (r *treeReport) equal(e *entry) {
	if e.info.Mode.IsRegular() {
		r.planned(e)
		r.kept(&e.info)
	}
}

// fail counts an entry that failed. name is its name in a list, if it has one.
func (r *treeReport) fail(name, source, target string, err error) {
	t := r.t
	if t.plan.vanished(source, err) || r.ending(err) {
		return
	}
	if !errors.As(err, new(*Error)) {
		err = newError(t.job, source, target, err)
	}
	r.count(&r.sums.Failed, 1)
	t.tell((&Event{Route: Route{Source: source, Target: target}, Size: -1, Name: name}).failed(err))
	r.failFirst(err)
}

func (e *entry) fail(err error)     { e.dir.tree.fail("", e.source(), e.target(), err) }
func (d *directory) fail(err error) { d.tree.fail("", d.source, d.target, err) }

// ending reports whether an error only means that the whole copy is ending, which is reported once
// and not for each file.
func (r *treeReport) ending(err error) bool {
	t := r.t
	if t.ctx.Err() != nil {
		return true
	}
	if !slices.ContainsFunc(t.copies.Conns(),
		func(c *pool.Conn) bool { return pools.OfConn(c).Ended() }) {
		return false
	}
	err = t.copies.Why(err)
	r.mu.Lock()
	if !r.ended { // says more than what failed before: the rest is missing, too
		r.ended, r.first = true, newError(t.job, t.route.Source, t.root.target, err)
	}
	r.mu.Unlock()
	t.cancel(err)
	return true
}

// failFirst keeps the first error, and ends the copy if StopOnError is set.
func (r *treeReport) failFirst(err error) {
	t := r.t
	r.mu.Lock()
	if r.first == nil {
		r.first = err
	}
	r.mu.Unlock()
	if t.options.StopOnError {
		t.cancel(err)
	}
}

// skip counts an entry that is not copied.
func (r *treeReport) skip(source, why string) {
	r.count(&r.sums.Skipped, 1)
	r.t.tell(&Event{Kind: Skipped, Route: Route{Source: source}, Size: -1, Message: why})
}

func (d *directory) note(message string) { d.tree.say(Note, d.source, d.target, message) }
func (d *directory) warn(message string) { d.tree.warn(d.source, d.target, message) }

func (r *treeReport) warn(source, target, message string) {
	r.say(Warning, source, target, message)
}

func (r *treeReport) say(kind Kind, source, target, message string) {
	r.t.tell(&Event{Kind: kind, Route: Route{Source: source, Target: target}, Size: -1,
		Message: message})
}

// failed reports whether anything has gone wrong.
func (r *treeReport) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first != nil
}
