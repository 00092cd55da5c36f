package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// Kind says what an Event reports.
type Kind string

const (
	Started  Kind = "started"  // Size is known, or -1
	Progress Kind = "progress" // Bytes have arrived so far
	Retried  Kind = "retried"  // the lost connection will be replaced after Wait; Err, Message
	Renewed  Kind = "renewed"  // it has been replaced; Message
	Note     Kind = "note"     // Message says how it is done, where that may surprise
	Warning  Kind = "warning"  // Message says what is wrong or is left, though nothing failed
	Done     Kind = "done"     // Bytes, Elapsed and the Outcome are final
	Kept     Kind = "kept"     // the target is up to date; Hash
	Failed   Kind = "failed"   // Err and Message say why; LeftBehind

	// Of trees. The Started, Progress and Ended events of the tree itself have Totals, those of its
	// entries do not.
	Planned Kind = "planned" // a dry run would copy it; in a Sync, Reason
	Skipped Kind = "skipped" // Message says why it was not copied
	Deleted Kind = "deleted" // by a Sync: the source does not have it
	Ended   Kind = "ended"   // Totals are final; Err and Message if anything failed
)

// A Route is where a copy comes from and goes to. A host of "" is this machine.
type Route struct {
	SourceHost string `json:"source_host,omitempty"`
	Source     string `json:"source"`
	TargetHost string `json:"target_host,omitempty"`
	Target     string `json:"target"`
}

// An Event reports what happened in a copy. Fields that its kind does not mention are zero.
type Event struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	Route
	// Name is the name of a file with a hash: its path below the directory that was named as the
	// target, with slashes; in a Check, its name in the list.
	Name string `json:"name,omitempty"`
	Size int64  `json:"size"`
	Position
	Wait    time.Duration `json:"wait_ns,omitempty"`
	Message string        `json:"message,omitempty"`
	Reason  Reason        `json:"reason,omitempty"` // in a Sync
	Outcome
	Err    error   `json:"-"`
	Tree   bool    `json:"tree,omitempty"`   // it concerns a tree, or an entry of one
	Totals *Totals `json:"totals,omitempty"` // of the whole tree
}

// A Phase says what is done with a file of which all bytes have arrived, or with a tree of which
// all files have.
type Phase string

const (
	PhaseFinishing Phase = "finishing"            // it gets its attributes and its name
	PhaseWaiting   Phase = "waiting for the host" // to store it, or to answer the same
	PhaseRereading Phase = "rereading"            // its source had just been written to
	PhaseHashing   Phase = "hashing"
	PhaseVerifying Phase = "verifying"
	PhaseComparing Phase = "comparing" // of a Sync with Checksum
	PhaseDeleting  Phase = "deleting"  // of a Sync: looks for what to delete, and deletes it
)

// Position is how far a copy has come.
type Position struct {
	Bytes   int64 `json:"bytes"`
	Resumed int64 `json:"resumed,omitempty"` // of Bytes, those left by an earlier copy
	// Finishing means, in Progress, that all bytes have arrived, and Phase says what is done now.
	// Checked is how far that has come, 0 if unknown.
	Finishing bool  `json:"finishing,omitempty"`
	Phase     Phase `json:"phase,omitempty"`
	Checked   int64 `json:"checked,omitempty"`
	// Stalled is, in Progress, for how long a host has sent nothing of what it owes, if that is
	// some seconds. Wait is then the time until the connection is given up, and Message says both.
	Stalled time.Duration `json:"stalled_ns,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`
	// Paused is, of Elapsed, for how long a host stalled, there was no connection, or the process
	// was stopped. It is not known of the entries of a tree.
	Paused time.Duration `json:"paused_ns,omitempty"`
}

// retried fills in an event about an attempt to replace a connection.
func (j *job) retried(a pool.Attempt, e *Event) *Event {
	j.pauses.Attempt(a)
	e.Kind, e.Err, e.Wait, e.Message = Retried, a.Err, a.Wait, a.Message
	if a.Err == nil {
		e.Kind = Renewed
	}
	return e
}

// failed fills in an event about an error.
func (e *Event) failed(err error) *Event {
	e.Kind, e.Err, e.Message = Failed, err, err.Error()
	return e
}

// stalledAfter is how long data must be overdue before that is reported.
const stalledAfter = 5 * time.Second

// stalledSince returns since when a host has stalled, zero if none has.
func (j *job) stalledSince() (earliest time.Time) {
	for _, conn := range j.conns() {
		since, _ := endpoint.Overdue(conn.Host())
		if since.IsZero() || time.Since(since) < stalledAfter {
			continue
		}
		if earliest.IsZero() || since.Before(earliest) {
			earliest = since
		}
	}
	return earliest
}

// addStall fills in that a host sends nothing of what it owes, and what follows from that.
func (e *Event) addStall(j *job) {
	for _, conn := range j.conns() {
		since, end := endpoint.Overdue(conn.Host())
		stalled := time.Since(since)
		if since.IsZero() || stalled < stalledAfter || stalled <= e.Stalled {
			continue
		}
		e.Stalled, e.Wait = stalled, max(0, time.Until(end))
		follows := "giving up"
		if pools.OfConn(conn).Renews() {
			follows = "reconnecting"
		}
		e.Message = fmt.Sprintf("stalled for %d s; %s in %d s", stalled/time.Second, follows,
			(e.Wait+time.Second/2)/time.Second)
	}
}

// tell reports an event of the job.
func (j *job) tell(e *Event) {
	if j.listener == nil {
		return
	}
	e.Time, e.Tree = time.Now(), j.tree != nil
	e.SourceHost, e.TargetHost = j.route.SourceHost, j.route.TargetHost
	j.listener.tell(e)
}

// fileReport tells the user what becomes of one file.
type fileReport struct {
	c        *fileCopy
	activity *activity // of a large file in a tree, nil before its first progress
	// how far it has been checked, nil if it is not being checked
	checked atomic.Pointer[func() int64]
	phase   atomic.Pointer[Phase] // nil before all bytes have arrived
	mu      sync.Mutex            // held while an event is passed on; guards started
	started bool                  // reported as started
}

// tell reports an event of the file.
func (c *fileCopy) tell(e *Event) {
	if c.listener == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == Started {
		if c.started {
			return // this is another attempt
		}
		c.started = true
	}
	e.Source, e.Target = c.source, c.result.Target
	if !e.Hash.IsZero() || c.op == opCheck {
		e.Name = c.name
	}
	c.job.tell(e)
}

// These must not be inlined. Every file in flight has a stack, whose size depends on the largest
// frames, and an Event takes half a kilobyte.

//go:noinline
func (r *fileReport) note(message string) {
	r.c.tell(&Event{Kind: Note, Size: r.c.size, Message: message})
}

//go:noinline
func (r *fileReport) warn(message string) {
	r.c.tell(&Event{Kind: Warning, Size: r.c.size, Message: message})
}

//go:noinline
func (r *fileReport) tellStarted() { r.c.tell(&Event{Kind: Started, Size: r.c.size}) }

//go:noinline
func (r *fileReport) tellEnd(err error) {
	c := r.c
	e := &Event{Kind: Done, Size: c.size, Position: r.at(c.result.Bytes), Outcome: c.result.Outcome}
	e.Elapsed = c.result.Elapsed
	if err != nil {
		e.Resumed, e.Outcome = 0, Outcome{LeftBehind: c.result.LeftBehind}
		e.failed(err)
	}
	if c.entry != nil {
		e.Reason = c.entry.reason
	}
	c.tell(e)
}

//go:noinline
func (r *fileReport) tellKept() {
	r.c.tell(&Event{Kind: Kept, Size: r.c.size,
		Outcome: Outcome{Hash: r.c.hashing.hash}})
}

// ended tells how the copy of a file that belongs to no tree has ended. kept reports whether the
// target is up to date.
func (r *fileReport) ended(err error) (kept bool, _ error) {
	if errors.Is(err, errKept) {
		r.tellKept()
		return true, nil
	}
	r.tellEnd(err)
	return false, err
}

// watch reports progress, counts it for reconnecting, and records it in the journal until stop is
// called.
func (r *fileReport) watch(position func() int64) (stop func()) {
	c := r.c
	stops := []func(){c.journal.markProgress(c, position), r.report(position),
		c.attempts.racy.watch(&c.ends, position)}
	for i, s := range c.ends.all() {
		stops = append(stops, pools.OfConn(s.conn).Follow(&c.attempts.progress[i], position))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// report reports progress, or counts it for the tree.
func (r *fileReport) report(position func() int64) (stop func()) {
	c := r.c
	if c.listener == nil {
		return func() {}
	}
	if c.tree != nil {
		return c.tree.watch(c, position)
	}
	return pace.Every(c.options.progressInterval(), func() {
		e := &Event{Kind: Progress, Size: c.size, Position: r.at(position())}
		e.addStall(c.job)
		c.tell(e)
	})
}

// at returns the file's position after bytes bytes.
func (r *fileReport) at(bytes int64) Position {
	p := Position{Bytes: bytes, Resumed: min(r.c.attempts.found, bytes),
		Elapsed: time.Since(r.c.began)}
	if r.c.tree == nil {
		p.Paused = r.c.pauses.Sum()
	}
	return p
}

// finishing reports progress after all bytes have arrived, until stop is called.
func (r *fileReport) finishing() (stop func()) {
	c := r.c
	switch {
	case c.isSmall() || c.listener == nil:
		return func() {}
	case c.tree != nil:
		return c.tree.finishes(c)
	}
	bytes := c.result.Bytes
	return pace.Every(c.options.progressInterval(), func() {
		e := &Event{Kind: Progress, Size: c.size, Position: r.at(bytes)}
		e.Finishing, e.Phase = true, r.now()
		if position := r.checked.Load(); position != nil {
			e.Checked = min((*position)(), bytes)
		}
		e.addStall(c.job)
		c.tell(e)
	})
}

// enters begins a phase.
func (r *fileReport) enters(phase Phase) { r.phase.Store(&phase) }

// settles begins the phase in which whoever keeps the copy finishes it.
func (r *fileReport) settles() { r.enters(r.c.job.settling()) }

// settling is the phase in which whoever keeps a copy finishes it.
func (r *copyRun) settling() Phase {
	if r.dst.conn() == nil {
		return PhaseFinishing
	}
	return PhaseWaiting
}

// now returns the phase of a file of which all bytes have arrived.
func (r *fileReport) now() Phase {
	if phase := r.phase.Load(); phase != nil {
		return *phase
	}
	return PhaseFinishing
}

// checks has progress report position, which is how far the bytes have been hashed or read again,
// until done is called.
func (r *fileReport) checks(position func() int64) (done func()) {
	r.checked.Store(&position)
	return func() { r.checked.Store(nil) }
}

func (o *Options) progressInterval() time.Duration {
	return cmp.Or(o.progressEvery, 200*time.Millisecond)
}

var errListener = errors.New("the Events function panicked")

// A listener calls the user's Events function on behalf of many goroutines, one event at a time. It
// does so on its own goroutine while the caller waits, so that a deep call does not grow the stacks
// of thousands of files in flight. If the function panics, the job ends as if its context had
// ended, but keeps nothing, and the panic is repeated where the job was called: nobody could
// recover from it on our goroutine.
type listener struct {
	f      func(Event)
	cancel context.CancelCauseFunc

	mu    sync.Mutex // held by the caller of tell
	event Event
	next  chan struct{} // event is set
	heard chan struct{} // f has returned
	gone  chan struct{} // closed when the listener has ended, by a panic or with the job
	value any           // the panic's value; valid once gone is closed
}

// listen starts calling the user's Events function. It returns nil if there is none.
func listen(f func(Event), cancel context.CancelCauseFunc) *listener {
	if f == nil {
		return nil
	}
	l := &listener{f: f, cancel: cancel, next: make(chan struct{}), heard: make(chan struct{}),
		gone: make(chan struct{})}
	go l.listen()
	return l
}

func (l *listener) listen() {
	over := false
	defer func() {
		if !over {
			l.value = recover()
			l.cancel(errListener)
		}
		close(l.gone)
	}()
	for range l.next {
		l.f(l.event)
		l.heard <- struct{}{}
	}
	over = true
}

func (l *listener) tell(e *Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gone:
		return
	default:
	}
	l.event = *e
	l.next <- struct{}{}
	select {
	case <-l.heard:
	case <-l.gone:
	}
	l.event = Event{}
}

// done ends the listener, and repeats its panic.
func (l *listener) done() {
	if l == nil {
		return
	}
	l.mu.Lock()
	close(l.next)
	<-l.gone
	l.mu.Unlock()
	if l.value != nil {
		panic(l.value)
	}
}
