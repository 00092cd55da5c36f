// Package inflight copies several files at once. Their reports come one after another, as if the
// files had been copied in turn.
package inflight

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

const (
	// mostBytes limits the sizes of the files in flight together: more would not be faster, and take
	// more memory. Larger files are copied alone, since one fills the link.
	mostBytes = 16 << 20

	mostFiles = 128

	// MostLooked limits the sources that are looked at together.
	MostLooked = 256
)

// AtOnce returns how many files may be in flight on some hosts at once. It is one where none may
// fail only because others are in flight.
func AtOnce(hosts ...*usftp.Client) int {
	most := 1 // on this machine nothing waits for a link
	for i, client := range hosts {
		allowed := private.FilesAtOnce(client, mostFiles)
		if _, says := client.HasExtension(wire.ExtLimits); says {
			if limits, err := client.Limits(); err != nil || limits.MaxOpenHandles > 0 {
				allowed = int(min(uint64(allowed), limits.MaxOpenHandles/4))
			}
		}
		if i == 0 || allowed < most {
			most = max(1, allowed)
		}
	}
	return most
}

// Suits reports whether files with these options may be in flight at once. A rate is one copy's.
func Suits(o *transfer.Options) bool {
	return o.RateLimit == 0 && o.Placement != transfer.PlaceDirect
}

// Options returns the options of a copy beside others. It may not write in place, since two names
// may be one file's. For the same reason it follows no link that has come into its place since
// [Look]. It does not replace a lost connection: all would try.
func Options(o transfer.Options, events func(transfer.Event)) transfer.Options {
	o.Placement, o.Retries, o.Events = transfer.PlaceAtomic, 0, events
	o.ReplaceLink = true
	return o
}

// An End is one end of the copies: files on a host, or on this machine if Client is nil.
type End struct {
	Client *usftp.Client
	Names  []string
}

// Look returns the sizes of the sources, negative for those that must be copied alone: one that is
// not known to be a regular file, and one that is a symbolic link or whose target is, since others
// may go to where it leads. It takes one round trip.
func Look(from, to End) []int64 {
	sources, targets := from.look(), to.look()
	sizes := make([]int64, len(sources))
	for i := range sizes {
		sizes[i] = -1
		source, err := sources[i]()
		target, noTarget := targets[i]()
		if err != nil || noTarget == nil && target.Mode()&fs.ModeSymlink != 0 {
			continue
		}
		if info := endpoint.OfFile(source); info.IsRegular() {
			sizes[i] = info.Size
		}
	}
	return sizes
}

// Sizes are the sizes of sources that were looked at together, before they are copied.
type Sizes struct {
	first int // the number of the first one
	sizes []int64
}

// Of returns the size of a source, whose number is larger than those before. look returns the sizes
// of it and of some that follow; not every source is asked about.
func (s *Sizes) Of(i int, look func() []int64) int64 {
	if i >= s.first+len(s.sizes) {
		s.first, s.sizes = i, look()
	}
	return s.sizes[i-s.first]
}

// look asks for the attributes of all files, or of the links that they are.
func (e End) look() []func() (fs.FileInfo, error) {
	answers := make([]func() (fs.FileInfo, error), len(e.Names))
	for i, name := range e.Names {
		if e.Client == nil {
			answers[i] = func() (fs.FileInfo, error) { return os.Lstat(name) }
		} else {
			answers[i] = private.OfClient(e.Client).StartLook(name)
		}
	}
	return answers
}

// A Copy is the copy of one file.
type Copy struct {
	Name string // in the directory that all files go to
	Size int64  // negative if nothing else may be in flight

	// Check reports whether the file is still to be copied, once all that may matter has ended.
	Check func() bool

	// Beside returns the function that copies the file with Options, on a goroutine of its own. It
	// returns nil if it has reported why that cannot begin. again means that an attempt has failed,
	// which may have left a part of the file.
	Beside func(again bool) func(events func(transfer.Event)) error

	// Alone copies the file when nothing else is in flight, also if Beside has failed: the host may
	// have refused what it allows otherwise. It reports errors itself.
	Alone func(events func(transfer.Event), again bool) (ok bool)

	// Ended is called if Beside was the only attempt: it succeeded, or left something and cannot be
	// tried again.
	Ended func(err error)
}

// A Queue holds the copies in flight, in the order in which they are reported. Its methods, and the
// functions of its copies, run on one goroutine.
type Queue struct {
	ctx     context.Context
	events  func(transfer.Event)
	most    int // files in flight
	limit   int // of most
	grown   int // files that succeeded since most changed
	bytes   int64
	flights []*flight
	names   map[string]bool // those whose forms are keys may be one
	told    bool            // an interruption was reported
}

// New returns a Queue that reports to events.
func New(ctx context.Context, most int, events func(transfer.Event)) *Queue {
	return &Queue{ctx: ctx, events: events, most: most, limit: most, names: make(map[string]bool)}
}

// Beside reports whether files may still be in flight at once.
func (q *Queue) Beside() bool { return q.most > 1 }

// Add copies a file alone, or starts to copy it once there is room beside those in flight. Copies
// whose names may be one are not in flight together, and Check may report a name that is taken.
func (q *Queue) Add(c Copy) {
	beside := q.Beside() && c.Size >= 0 && c.Size <= mostBytes
	form := endpoint.NameForm(c.Name)
	if q.names[form] {
		q.Finish()
	}
	q.names[form] = true
	for len(q.flights) > 0 &&
		(!beside || len(q.flights) >= q.most || q.bytes+c.Size > mostBytes) {
		q.next()
	}
	if q.ctx.Err() != nil || !c.Check() {
		return
	}
	if !beside {
		c.Alone(q.events, false)
		return
	}
	q.start(c, false)
}

// Finish waits for all copies in flight.
func (q *Queue) Finish() {
	for len(q.flights) > 0 {
		q.next()
	}
}

// next waits for the oldest copy, and reports it. One that has failed waits for all others to be
// tried again alone. Those that have failed, too, follow before new ones start: each would wait for
// these.
func (q *Queue) next() {
	f := q.flights[0]
	failure := f.report(q.events)
	q.flights = q.flights[1:]
	q.bytes -= f.Size
	if f.err == nil || q.ctx.Err() != nil {
		switch {
		case f.err == nil:
			q.grow()
		case !q.told || leaves(failure):
			q.told = q.told || errors.Is(f.err, context.Cause(q.ctx))
			q.events(failure)
		}
		f.Ended(f.err)
		return
	}
	for _, other := range q.flights {
		<-other.landed
	}
	lost := f.lost()
	if f.tryAlone(q.events, failure) && !lost {
		q.most, q.grown = max(1, q.most/2), 0
	}
	if lost {
		q.relaunch()
	} else {
		q.Finish()
	}
}

// grow allows another file once as many have succeeded as are twice in flight: a refusal need not
// have meant that there were too many.
func (q *Queue) grow() {
	if q.grown++; q.grown >= 2*q.most && q.most < q.limit {
		q.most, q.grown = q.most+1, 0
	}
}

// relaunch restarts the copies that failed because their connection was lost. The copy that has
// just run alone has replaced it, or has given up: then what the others have left is reported.
func (q *Queue) relaunch() {
	old := q.flights
	q.flights, q.bytes = nil, 0
	for _, f := range old {
		if !f.lost() {
			q.flights = append(q.flights, f)
			q.bytes += f.Size
		} else if !q.start(f.Copy, true) {
			if failure := f.report(func(transfer.Event) {}); leaves(failure) {
				q.events(failure)
				f.Ended(f.err)
			}
		}
	}
}

// start starts a copy beside others, if it can begin.
func (q *Queue) start(c Copy, again bool) bool {
	run := c.Beside(again)
	if run == nil {
		return false
	}
	f := &flight{Copy: c, landed: make(chan struct{}), told: make(map[news]bool)}
	f.more.L = &f.mu
	q.flights = append(q.flights, f)
	q.bytes += c.Size
	go f.run(run)
	return true
}

// A flight is a copy that runs beside others.
type flight struct {
	Copy
	landed chan struct{} // closed when Beside has returned err
	err    error
	told   map[news]bool // what was reported, other than progress

	mu     sync.Mutex
	more   sync.Cond
	unread []transfer.Event
	heard  bool // it is the oldest: its events are reported as they come
	over   bool
}

// news is what an event says, which need not be said twice.
type news struct {
	kind    transfer.Kind
	message string
}

// tryAlone copies the file alone, and passes on what that says and the first attempt has not. What
// the first attempt has left is named if this one fails before it may have met it.
func (f *flight) tryAlone(events func(transfer.Event), first transfer.Event) (ok bool) {
	met := false
	ok = f.Alone(func(e transfer.Event) {
		met = met || e.Kind == transfer.Started
		if !f.told[news{e.Kind, e.Message}] {
			events(e)
		}
	}, true)
	if failed, _ := errors.AsType[*transfer.Error](f.err); !ok && !met && first.LeftBehind != "" &&
		failed != nil {
		first.Kind, first.Err, first.Message = transfer.Warning, nil, failed.Detail
		events(first)
	}
	return ok
}

// leaves reports whether a failure has left something.
func leaves(failure transfer.Event) bool { return failure.Bytes > 0 || failure.LeftBehind != "" }

// lost reports whether the copy failed because its connection was lost.
func (f *flight) lost() bool { return f.err != nil && ui.CodeOf(f.err) == ui.ExitNoHost }

func (f *flight) run(run func(events func(transfer.Event)) error) {
	f.err = run(f.tell)
	close(f.landed)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.more.Signal()
}

// tell takes an event. It drops progress if nobody has read what came before.
func (f *flight) tell(e transfer.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Kind == transfer.Progress && (!f.heard || len(f.unread) > 0) {
		return
	}
	f.unread = append(f.unread, e)
	f.more.Signal()
}

// report passes the events on until the copy has ended, except for that of its failure.
func (f *flight) report(events func(transfer.Event)) (failure transfer.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = true
	for {
		for len(f.unread) == 0 && !f.over {
			f.more.Wait()
		}
		if len(f.unread) == 0 {
			return failure
		}
		unread := f.unread
		f.unread = nil
		f.mu.Unlock()
		for _, e := range unread {
			if e.Kind == transfer.Failed {
				failure = e
				continue
			}
			f.told[news{e.Kind, e.Message}] = e.Kind != transfer.Progress
			events(e)
		}
		f.mu.Lock()
	}
}
