package transfer

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/usftp/usftp"
)

// do runs the job and tells how it went.
func (r *run) do() (Result, error) {
	err := r.copy()
	if err != nil {
		r.tell(Event{Kind: Failed, Size: r.size, Bytes: r.result.Bytes, Elapsed: r.result.Elapsed,
			LeftBehind: r.result.LeftBehind, Err: err, Message: err.Error()})
		return r.result, err
	}
	r.tellDone()
	return r.result, nil
}

func (r *run) tellDone() {
	r.tell(Event{Kind: Done, Size: r.size, Bytes: r.result.Bytes,
		Resumed: min(r.found, r.result.Bytes), Elapsed: r.result.Elapsed, Hash: r.result.Hash,
		Verified: r.result.Verified, Bound: r.result.Bound})
}

// copy copies the file. Its error is an [*Error].
func (r *run) copy() error {
	r.result.Target = r.Target
	defer r.releaseJournal(false) // where the user's code has panicked
	var err error
	for {
		r.Host = r.line.current()
		if r.from != nil {
			r.From = r.from.current()
		}
		if err = r.checkClients(); err != nil {
			break
		}
		if err = verifiable(r.Host.Client, &r.Options); err != nil {
			break
		}
		r.takeHandle()
		err = r.try()
		if err == nil || !r.retry(err) {
			break
		}
	}
	r.releaseJournal(err != nil && (r.resumable || r.left != nil || r.lost() ||
		r.result.LeftBehind != ""))
	if err != nil {
		r.dropUseless()
	}
	r.stopHashing()
	r.result.Elapsed = time.Since(r.began)
	// maybe by a try before the last, which had but to give it its name
	r.result.Hash, r.result.Verified = r.hash, r.verified
	if errors.Is(err, os.ErrDeadlineExceeded) && r.ctx.Err() != nil {
		err = context.Cause(r.ctx) // see interruptible
	}
	if err != nil {
		r.Options.List.met(r.names())
		return r.failure(why(r.line, r.from, err))
	}
	return nil
}

// dropUseless removes what was left on this machine for a further try that there will not be, where
// no journal has it for a later run.
func (r *run) dropUseless() {
	if r.Direction != Download || r.left == nil || r.resumable || r.journalFile(r.result.Target) != "" {
		return
	}
	dir, name := filepath.Split(r.left.Temporary)
	root, err := os.OpenRoot(cmp.Or(dir, "."))
	if err != nil {
		return
	}
	defer root.Close()
	if root.Remove(name) == nil {
		r.result.LeftBehind, r.detail = "", ""
	}
}

// try is one try over one connection.
func (r *run) try() error {
	defer r.line.enter(r.item == nil || !r.isSmall(r.item.facts.size))()
	defer r.lend()()
	switch r.Direction {
	case Download:
		return r.download()
	case Local:
		return r.copyHere()
	case Checking:
		return r.check()
	}
	return r.uploadWhole()
}

// run is one run of a job.
type run struct {
	Job
	ctx    context.Context
	began  time.Time
	size   int64 // of the source, -1 where it is not known
	result Result
	detail string // for the error: what has become of the target

	started   bool   // it was told
	temporary string // the path of the temporary file, for the error too
	mu        sync.Mutex

	trip time.Duration // a round trip, as far as one was seen; 0 before

	line *lifeline
	// to the source of a relay, else nil; the same as line where they are one host
	from      *lifeline
	resumable bool     // a mark was saved, for a later run
	claim     *claim   // of its mark in the journal
	unclaimed bool     // it was asked for
	marks     *marks   // what is noted as it goes
	left      *mark    // what a try that lost its connection has left
	placing   *placing // the last step of an upload, once it has begun
	arrived   bool     // all of it, and was counted
	strays    []string // temporary files on the host that such a try may have left
	way       way      // how far it has come
	fromWay   way      // the same, as the source's connection counts it
	reached   int64    // what the last try had come to
	retried   bool     // this is not the first try
	found     int64    // what an earlier run had copied
	// a temporary file of an earlier run's that is of no use once this one is done
	stale string
	// the source of what the job's writer was given; nil where it is not known well enough to go on
	poured *usftp.FileStat

	doubt    *doubt   // about the source, nil where there can be none
	passing  *passing // hashes what passes, nil where nobody wants that
	digests  digests  // of all that has passed
	hash     Hash
	verified Verification
	striper  *striper // of an upload under way
	name     string   // the copy's, below what was named as the target

	dense bool // holes are sent, since the host takes no file in parts

	limiter *limiter // nil without a limit; shared by the files of a tree
	item    *item    // what a tree knows of the file, nil where there is no tree
	handle  bool     // a handle of the tree's allowance is taken
}

// tell tells the job's listener.
func (r *run) tell(e Event) {
	if r.Options.Events == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Kind == Started {
		if r.started {
			return // this is another try
		}
		r.started = true
	}
	e.Time, e.Host, e.Direction, e.Source, e.Target, e.Tree = time.Now(), r.Host.Name, r.Direction, r.Source, r.result.Target, r.item != nil
	e.SourceHost = r.From.Name
	if !e.Hash.IsZero() || r.Direction == Checking {
		e.Name = r.name
	}
	r.Options.Events(e)
}

// These are functions of their own, and remain so: each file in flight has a stack, whose room the
// largest of the functions on it decide, and an Event in passing is half a kilobyte of it.

//go:noinline
func (r *run) note(message string) { r.tell(Event{Kind: Note, Size: r.size, Message: message}) }

//go:noinline
func (r *run) tellStarted() { r.tell(Event{Kind: Started, Size: r.size}) }

// watch tells of progress until the returned function is called.
func (r *run) watch(progress func() int64) (stop func()) {
	unfollow := r.follow(progress)
	undoubt := r.boundDoubt(progress)
	unreport := r.report(progress)
	unmark := r.markAsItGoes(progress)
	return func() {
		unmark()
		unreport()
		undoubt()
		unfollow()
	}
}

// report is watch for the job's listener, or the tree's.
func (r *run) report(progress func() int64) (stop func()) {
	if r.item != nil {
		return r.item.dir.tree.watch(r.Source, progress)
	}
	if r.Options.Events == nil {
		return func() {}
	}
	every := r.Options.ProgressEvery
	if every <= 0 {
		every = defaultProgressEvery
	}
	return each(every, func() {
		bytes := progress()
		r.tell(Event{Kind: Progress, Size: r.size, Bytes: bytes, Resumed: min(r.found, bytes),
			Elapsed: time.Since(r.began)})
	})
}

// defaultProgressEvery is the time between progress events where nothing is said.
const defaultProgressEvery = 200 * time.Millisecond

// each calls a function in steady intervals until the returned function is called, which waits for
// it.
func each(every time.Duration, f func()) (stop func()) {
	ticker := time.NewTicker(every)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				f()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(quit)
		<-ended
	}
}
