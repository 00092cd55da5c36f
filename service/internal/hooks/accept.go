package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

const (
	// UsualAcceptTimeout is how long a MiB, or the answer after the last, may take.
	UsualAcceptTimeout = time.Minute

	// UsualMaxSize is the size of the largest file that is checked. It is clamd's StreamMaxLength.
	UsualMaxSize = 100 << 20

	// mostWait is how long a file waits to be checked when many do.
	mostWait = 5 * time.Minute

	// afterSession is how long the check of a file may continue after its client has gone.
	afterSession = 30 * time.Second
)

// Outcomes of accept.
const (
	Accepted  Outcome = "accepted"
	Refused   Outcome = "refused"
	Unchecked Outcome = "unchecked"
)

// A checker looks at the contents of a file. It returns nil to accept it, a *refusal, or why it
// could not be checked.
type checker interface {
	check(ctx context.Context, e *Event, contents *io.SectionReader) error
}

// refusal is a checker's answer.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

// notAccepted is the error of a CLOSE after which the file does not appear.
type notAccepted struct{ *server.StatusError }

func (n *notAccepted) Unwrap() error { return n.StatusError }

// gatekeeper asks one hook about files.
type gatekeeper struct {
	*Hook
	all     *Hooks
	checker checker
	places  places
	spooled *budget
	failed  limited
}

func newGatekeeper(all *Hooks, hook *Hook) *gatekeeper {
	hook.MaxSize = cmp.Or(hook.MaxSize, UsualMaxSize)
	g := &gatekeeper{Hook: hook, all: all, places: places{free: hook.AtOnce},
		spooled: newBudget(spoolFactor * hook.MaxSize)}
	switch {
	case hook.Clamd != "":
		g.checker = &clamd{hook}
	case hook.URL != "":
		g.checker = &acceptPoster{newPoster(hook)}
	default:
		g.checker = &acceptCommander{hook}
	}
	return g
}

// ask returns nil if a file may appear. If its contents are not available, contents is nil and why
// is the reason.
func (g *gatekeeper) ask(session context.Context, e Event, contents io.ReaderAt, size int64,
	why error) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(session))
	defer cancel()
	defer context.AfterFunc(session, func() { time.AfterFunc(afterSession, cancel) })()
	err := why
	if size > g.MaxSize {
		err = fmt.Errorf("a file of %d bytes is longer than max_size", size)
	}
	if err == nil {
		err = g.check(ctx, &e, contents, size)
	}
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		g.all.tell(g.Name, Accepted)
		return nil
	case ok:
		g.all.tell(g.Name, Refused)
		return &notAccepted{&server.StatusError{Code: wire.PermissionDenied,
			Message: fmt.Sprintf("refused by %s: %s", g.Name, refused.reason)}}
	}
	g.all.tell(g.Name, Unchecked)
	g.failed.log(func(more int) {
		g.all.log.Error("a file could not be checked", "hook", g.Name, "user", e.User, "path",
			shorten(e.Path), "error", err, "accepted", g.AcceptUnchecked, "more", more)
	})
	if g.AcceptUnchecked {
		return nil
	}
	return &notAccepted{&server.StatusError{Code: wire.Failure, Message: fmt.Sprintf(
		"the file could not be checked by %s, and was not stored; see the server's log", g.Name)}}
}

// check waits for the file's turn and checks it.
func (g *gatekeeper) check(ctx context.Context, e *Event, contents io.ReaderAt, size int64) error {
	waiting, stop := context.WithTimeout(ctx, mostWait)
	defer stop()
	if !g.places.take(waiting, e.User) {
		return fmt.Errorf("not its turn within %s: at_once is %d", mostWait, g.AtOnce)
	}
	defer g.places.give()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := fmt.Errorf("nothing came of it within %s", g.Timeout)
	timer := time.AfterFunc(g.Timeout, func() { cancel(late) })
	defer timer.Stop()
	watched := io.NewSectionReader(&watchedReader{contents: contents, moved: func() {
		timer.Reset(g.Timeout)
	}}, 0, size)
	err := g.checker.check(ctx, e, watched)
	if errors.Is(context.Cause(ctx), late) && err != nil && !errors.As(err, new(*refusal)) {
		err = late
	}
	return err
}

// places are handed on to users in turn, however many files of each are waiting.
type places struct {
	mu      sync.Mutex
	free    int                        // 0 while anybody waits
	waiting map[string][]chan struct{} // by users
	turns   []string                   // the users who wait; the first is next
}

// take waits for a place for a user, and reports whether it came before ctx ended.
func (p *places) take(ctx context.Context, user string) bool {
	p.mu.Lock()
	if p.free > 0 {
		p.free--
		p.mu.Unlock()
		return true
	}
	if p.waiting == nil {
		p.waiting = map[string][]chan struct{}{}
	}
	turn := make(chan struct{})
	if len(p.waiting[user]) == 0 {
		p.turns = append(p.turns, user)
	}
	p.waiting[user] = append(p.waiting[user], turn)
	p.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.waiting[user], turn)
	if i >= 0 {
		p.leave(user, i)
		if len(p.waiting[user]) == 0 {
			p.turns = slices.DeleteFunc(p.turns, func(u string) bool { return u == user })
		}
	}
	p.mu.Unlock()
	if i < 0 {
		p.give() // it has come just now
	}
	return false
}

// leave takes one of those who wait for a user out. The caller holds the lock.
func (p *places) leave(user string, i int) {
	if p.waiting[user] = slices.Delete(p.waiting[user], i, i+1); len(p.waiting[user]) == 0 {
		delete(p.waiting, user)
	}
}

// give returns a place.
func (p *places) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.turns) == 0 {
		p.free++
		return
	}
	user := p.turns[0]
	p.turns = p.turns[1:]
	close(p.waiting[user][0])
	if p.leave(user, 0); len(p.waiting[user]) > 0 {
		p.turns = append(p.turns, user)
	}
}

// watchedReader calls a function after each MiB that is read, and at the end.
type watchedReader struct {
	contents io.ReaderAt
	moved    func()
	unseen   atomic.Int64 // a reader of a request that is repeated may still be at work
}

func (w *watchedReader) ReadAt(p []byte, offset int64) (n int, err error) {
	n, err = w.contents.ReadAt(p, offset)
	if w.unseen.Add(int64(n)) >= 1<<20 || err != nil {
		w.unseen.Store(0)
		w.moved()
	}
	return n, err
}

// shorten cuts a client's text, for the log.
func shorten(text string) string {
	if len(text) > 128 {
		return text[:128] + "..."
	}
	return text
}

// budget is a number of bytes that users share.
type budget struct {
	mu   sync.Mutex
	left int64
	has  map[string]int64 // by users
}

func newBudget(n int64) *budget { return &budget{left: n, has: map[string]int64{}} }

// take takes n bytes for a user, if the user then has no more than is left for others.
func (b *budget) take(user string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has[user]+n > b.left-n {
		return false
	}
	b.move(user, n)
	return true
}

func (b *budget) give(user string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.move(user, -n)
}

// move moves n bytes to a user. The caller holds the lock.
func (b *budget) move(user string, n int64) {
	b.left -= n
	if b.has[user] += n; b.has[user] == 0 {
		delete(b.has, user)
	}
}
