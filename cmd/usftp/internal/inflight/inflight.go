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
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/samename"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

const (
	// mostBytes limits the sizes of the files in flight together: more would not be faster, and take
	// more memory. Larger files are copied alone, since one fills the link.
	mostBytes = 16 << 20

	mostFiles = 128

	// mostLooked limits the sources that are looked at together.
	mostLooked = 256
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
	size int64  // negative if nothing else may be in flight

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

// CopyAll copies sources, no more than most at once, and reports to events. look returns the sizes
// of some sources, or of the first of these, but at least of one; see [Look]. one returns the copy
// of a source. Both, and the functions of the copies, run on the caller's goroutine.
func CopyAll[Source any](ctx context.Context, most int, events func(transfer.Event),
	sources []Source, look func(next []Source) []int64, one func(source Source) Copy) {
	q := &queue{ctx: ctx, events: events, room: flow.NewRoom(most), names: make(map[string]bool)}
	var sizes []int64 // of the next sources
	for i, source := range sources {
		if ctx.Err() != nil {
			break
		}
		c := one(source)
		c.size = -1
		if q.beside() {
			if len(sizes) == 0 {
				sizes = look(sources[i:min(i+mostLooked, len(sources))])
			}
			c.size = sizes[0]
		}
		sizes = sizes[min(1, len(sizes)):]
		q.add(c)
	}
	q.finish()
}

// queue holds the copies in flight, in the order in which they are reported.
type queue struct {
	ctx     context.Context
	events  func(transfer.Event)
	room    flow.Room // for files
	bytes   int64
	flights []*flight
	names   map[string]bool // those whose forms are keys may be one
	told    bool            // an interruption was reported
}

// beside reports whether files may still be in flight at once.
func (q *queue) beside() bool { return q.room.Most > 1 }

// add copies a file alone, or starts to copy it once there is room beside those in flight. Copies
// whose names may be one are not in flight together, and Check may report a name that is taken.
func (q *queue) add(c Copy) {
	beside := q.beside() && c.size >= 0 && c.size <= mostBytes
	form := samename.Form(c.Name)
	if q.names[form] {
		q.finish()
	}
	q.names[form] = true
	for len(q.flights) > 0 &&
		(!beside || len(q.flights) >= q.room.Most || q.bytes+c.size > mostBytes) {
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

// finish waits for all copies in flight.
func (q *queue) finish() {
	for len(q.flights) > 0 {
		q.next()
	}
}

// next waits for the oldest copy, and reports it. One that has failed waits for all others to be
// tried again alone. Those that have failed, too, follow before new ones start: each would wait for
// these.
func (q *queue) next() {
	f := q.flights[0]
	failure := f.report(q.events)
	q.flights = q.flights[1:]
	q.bytes -= f.size
	if f.err == nil || q.ctx.Err() != nil {
		switch {
		case f.err == nil:
			q.room.Grow()
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
		q.room.Lower(q.room.Most / 2)
	}
	if lost {
		q.relaunch()
	} else {
		q.finish()
	}
}

// relaunch restarts the copies that failed because their connection was lost. The copy that has
// just run alone has replaced it, or has given up: then what the others have left is reported.
func (q *queue) relaunch() {
	old := q.flights
	q.flights, q.bytes = nil, 0
	for _, f := range old {
		if !f.lost() {
			q.flights = append(q.flights, f)
			q.bytes += f.size
		} else if !q.start(f.Copy, true) {
			if failure := f.report(func(transfer.Event) {}); leaves(failure) {
				q.events(failure)
				f.Ended(f.err)
			}
		}
	}
}

// start starts a copy beside others, if it can begin.
func (q *queue) start(c Copy, again bool) bool {
	run := c.Beside(again)
	if run == nil {
		return false
	}
	f := &flight{Copy: c, landed: make(chan struct{}), told: make(map[news]bool)}
	f.more.L = &f.mu
	q.flights = append(q.flights, f)
	q.bytes += c.size
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
