package transfer

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/plan"
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
	Warning  Kind = "warning"  // Message names a problem or a leftover, though nothing failed
	Done     Kind = "done"     // Bytes, Elapsed and the Outcome are final
	Kept     Kind = "kept"     // the target is up to date; Hash
	Failed   Kind = "failed"   // Err and Message say why; LeftBehind; Hash if only the source stays

	// Of trees. The tree's own Started, Progress and Ended events have Totals, its entries' do not.
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
	// Name is the name of a file with a hash: its path below the directory given as the target,
	// with slashes; in a Check, its name in the list.
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

// A Phase is the work left on a file after all its bytes, or on a tree after all its files, have
// arrived.
type Phase string

const (
	PhaseFinishing Phase = "finishing"            // it gets its attributes and its name
	PhaseWaiting   Phase = "waiting for the host" // to store it, or to answer the same
	PhaseRereading Phase = "rereading"            // its source had just been written to
	PhaseHashing   Phase = "hashing"
	PhaseVerifying Phase = "verifying"
	PhaseComparing Phase = "comparing" // of a Sync with Checksum
	PhaseDeleting  Phase = "deleting"  // of a Sync: looks for extra entries, and deletes them
)

// Position is the progress of a copy.
type Position struct {
	Bytes   int64 `json:"bytes"`
	Resumed int64 `json:"resumed,omitempty"` // the part of Bytes left by an earlier copy
	// Finishing means, in Progress, that all bytes have arrived, and Phase names the current work.
	// Checked is its progress in bytes, 0 if unknown.
	Finishing bool  `json:"finishing,omitempty"`
	Phase     Phase `json:"phase,omitempty"`
	Checked   int64 `json:"checked,omitempty"`
	// Stalled is, in Progress, how long a host that owes data has sent none, once that is some
	// seconds. Wait is then the time until the connection is given up, and Message says both.
	Stalled time.Duration `json:"stalled_ns,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns,omitempty"`
	// Paused is the part of Elapsed in which a host stalled, there was no connection, or the
	// process was stopped. It is not known for the entries of a tree.
	Paused time.Duration `json:"paused_ns,omitempty"`
}

// retried fills in an event about an attempt to replace a connection.
func (j *job) retried(a pool.Attempt, e *Event) *Event {
	j.copies.Pauses.Attempt(a)
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

// stalledAfter is how long data must be overdue before a stall is reported.
const stalledAfter = 5 * time.Second

// stall returns the longest stall of a host: the host's connection, which is nil if no host has
// stalled, and when the stall began and ends the connection.
func (j *job) stall() (conn *pool.Conn, since, end time.Time) {
	for _, c := range j.copies.Conns() {
		from, to := endpoint.Overdue(c.Host())
		if !from.IsZero() && time.Since(from) >= stalledAfter && (conn == nil || from.Before(since)) {
			conn, since, end = c, from, to
		}
	}
	return conn, since, end
}

// addStall fills in the longest stall of a host, and its consequence.
func (e *Event) addStall(j *job) {
	conn, since, end := j.stall()
	if conn == nil {
		return
	}
	e.Stalled, e.Wait = time.Since(since), max(0, time.Until(end))
	follows := "giving up"
	if pools.OfConn(conn).Renews() {
		follows = "reconnecting"
	}
	e.Message = fmt.Sprintf("stalled for %d s; %s in %d s", e.Stalled/time.Second, follows,
		(e.Wait+time.Second/2)/time.Second)
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

// An Event takes half a kilobyte, so the makers of a file's events are not inlined: every file in
// flight has a stack, whose size depends on the largest frames. They make its copy's Reporter.

//go:noinline
func (t *fileTask) say(kind Kind, message string) {
	t.tell(&Event{Kind: kind, Size: t.Size, Message: message})
}

func (t *fileTask) Started()            { t.say(Started, "") }
func (t *fileTask) Note(message string) { t.say(Note, message) }
func (t *fileTask) Warn(message string) { t.say(Warning, message) }

//go:noinline
func (t *fileTask) Retried(a pool.Attempt) {
	t.tell(t.job.retried(a, &Event{Size: t.Size, Position: Position{Bytes: t.Result.Bytes}}))
}

//go:noinline
func (t *fileTask) tellEnd(err error) {
	e := &Event{Kind: Done, Size: t.Size, Position: t.at(t.Result.Bytes), Outcome: t.outcome()}
	e.Elapsed = t.Result.Elapsed
	if err != nil {
		e.Resumed, e.Outcome = 0, Outcome{LeftBehind: t.Result.LeftBehind}
		if t.stays {
			e.Hash = t.Result.Hash
		}
		e.failed(err)
	}
	if t.entry != nil {
		e.Reason = reasons[t.entry.do.Why]
	}
	t.tell(e)
}

//go:noinline
func (t *fileTask) tellKept() {
	t.tell(&Event{Kind: Kept, Size: t.Size, Outcome: Outcome{Hash: t.Result.Hash}})
}

// tell reports an event of the file.
func (t *fileTask) tell(e *Event) {
	if t.job.listener == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind == Started {
		if t.started {
			return // this is another attempt
		}
		t.started = true
	}
	e.Source, e.Target = t.Source, t.Result.Target
	if !e.Hash.IsZero() || t.job.op == opCheck {
		e.Name = t.ListName
	}
	t.job.tell(e)
}

// Report reports progress, or counts it for the tree.
func (t *fileTask) Report(position func() int64) (stop func()) {
	switch {
	case t.job.listener == nil:
		return func() {}
	case t.job.tree != nil:
		return t.job.tree.watch(t, position)
	}
	return pace.Every(t.job.options.progressInterval(), func() {
		e := &Event{Kind: Progress, Size: t.Size, Position: t.at(position())}
		e.addStall(t.job)
		t.tell(e)
	})
}

// at returns the file's position after bytes bytes.
func (t *fileTask) at(bytes int64) Position {
	p := Position{Bytes: bytes, Resumed: min(t.Found(), bytes),
		Elapsed: time.Since(t.Began)}
	if t.job.tree == nil {
		p.Paused = t.job.copies.Pauses.Sum()
	}
	return p
}

// Finishing reports progress after all bytes have arrived, until stop is called.
func (t *fileTask) Finishing() (stop func()) {
	switch {
	case t.IsSmall() || t.job.listener == nil:
		return func() {}
	case t.job.tree != nil:
		return t.job.tree.finishes(t)
	}
	bytes := t.Result.Bytes
	return pace.Every(t.job.options.progressInterval(), func() {
		e := &Event{Kind: Progress, Size: t.Size, Position: t.at(bytes)}
		e.Finishing, e.Phase = true, t.phase()
		if position := t.Checked(); position != nil {
			e.Checked = min(position(), bytes)
		}
		e.addStall(t.job)
		t.tell(e)
	})
}

func (t *fileTask) Resumed(bytes int64) {
	if tree := t.job.tree; tree != nil {
		tree.count(&tree.sums.Resumed, bytes)
	}
}

func (t *fileTask) Leaves() {
	if tree := t.job.tree; tree != nil {
		tree.leftovers.leaves(false)
	}
}

// phases are the phases of a file.
var phases = [...]Phase{filecopy.Finishing: PhaseFinishing, filecopy.Waiting: PhaseWaiting,
	filecopy.Rereading: PhaseRereading, filecopy.Hashing: PhaseHashing,
	filecopy.Verifying: PhaseVerifying}

func (t *fileTask) phase() Phase { return phases[t.Copy.Phase()] }

// reasons are a sync's reasons to copy or change an entry.
var reasons = [...]Reason{plan.New: ReasonNew, plan.Type: ReasonType, plan.Size: ReasonSize,
	plan.Time: ReasonTime, plan.Hash: ReasonHash, plan.Leads: ReasonLink, plan.Mode: ReasonMode,
	plan.Owner: ReasonOwner, plan.Touch: ReasonTouch}

func (o *Options) progressInterval() time.Duration {
	return cmp.Or(o.progressEvery, 200*time.Millisecond)
}

// A listener calls the user's Events function on behalf of many goroutines, one event at a time. It
// does so on its own goroutine while the caller waits, so that a deep call does not grow the stacks
// of thousands of files in flight. If the function panics, the job ends as if its context had
// ended, but keeps nothing, and the panic is repeated where the job was called: the caller could
// not recover it on our goroutine.
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
			l.cancel(filecopy.ErrPanicked)
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
