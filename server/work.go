package server

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp/server/internal/turn"
)

// Work limits operations that take much processor time, over all sessions that share it: hashing,
// and resolving paths in hundreds of steps. One fewer than there are processors run at once, and
// users take turns, however many sessions and requests each has. The zero Work is ready for use; it
// is safe for concurrent use.
type Work struct {
	mu      sync.Mutex
	running int
	waiting map[string][]waiter // by user
	turns   []string            // the users who wait; the first is next
}

// A waiter waits for a turn.
type waiter struct {
	request *request // or nil
	turn    chan struct{}
}

// begin waits for user's turn; r may be nil. Of the requests on one handle, the one with the lowest
// offset comes first: a client that asks ahead for several parts of a file needs them in that
// order.
func (w *Work) begin(ctx context.Context, user string, r *request) error {
	w.mu.Lock()
	if w.running < max(1, runtime.GOMAXPROCS(0)-1) {
		w.running++
		w.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	if w.waiting == nil {
		w.waiting = map[string][]waiter{}
	}
	if len(w.waiting[user]) == 0 {
		w.turns = append(w.turns, user)
	}
	w.waiting[user] = inOrder(append(w.waiting[user], waiter{r, turn}))
	w.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	i := slices.IndexFunc(w.waiting[user], func(o waiter) bool { return o.turn == turn })
	if i >= 0 {
		w.waiting[user] = slices.Delete(w.waiting[user], i, i+1)
		if len(w.waiting[user]) == 0 {
			delete(w.waiting, user)
			w.turns = slices.DeleteFunc(w.turns, func(u string) bool { return u == user })
		}
	}
	w.mu.Unlock()
	if i < 0 { // the turn has come in the meantime
		w.end()
	}
	return context.Cause(ctx)
}

// end passes the turn on.
func (w *Work) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.turns) == 0 {
		w.running--
		return
	}
	user := w.turns[0]
	w.turns = w.turns[1:]
	next, rest := w.waiting[user][0], w.waiting[user][1:]
	if len(rest) == 0 {
		delete(w.waiting, user)
	} else {
		w.waiting[user] = rest
		w.turns = append(w.turns, user)
	}
	close(next.turn)
}

// inOrder moves the last waiter to its place. A handle's requests keep their places as a group.
func inOrder(all []waiter) []waiter {
	last := len(all) - 1
	for i, o := range slices.Backward(all) {
		r := all[last].request
		if r != nil && r.handle != nil && o.request != nil && o.request.handle == r.handle &&
			o.request.offset > r.offset {
			all[i], all[last] = all[last], all[i]
			last = i
		}
	}
	return all
}

// WithWork returns a context with which the view's methods wait, before work that takes much
// processor time, until w gives the view's user a turn. Only trees of package osfs have such work,
// and [Folders]. Serve uses Options.Work in the same way.
func (v *View) WithWork(ctx context.Context, w *Work) context.Context {
	if !v.takesTurns {
		return ctx
	}
	return turn.With(ctx, func(ctx context.Context) (func(), error) {
		return w.end, w.begin(ctx, v.user, nil)
	})
}

// longPath is the number of elements above which resolving a path counts as expensive.
const longPath = 100

// takesLong reports whether a request's paths are so long that it needs a turn.
func (r *request) takesLong() bool {
	text := ""
	if r.op == opExpandPath {
		text = r.text
	}
	return len(r.path)+len(r.path2)+len(text) > 2*longPath &&
		strings.Count(r.path, "/")+strings.Count(r.path2, "/")+strings.Count(text, "/") > longPath
}

// beginLong waits for a turn if the request's paths are long, unless the backend does that itself.
func (s *session) beginLong(r *request) (end func(), err error) {
	if s.view.takesTurns || !r.takesLong() {
		return func() {}, nil
	}
	return s.costly.end, s.costly.begin(s.ctx, s.view.user, r)
}
