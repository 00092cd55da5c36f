//go:build linux || darwin

package sftpfs

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// lanes are further handles of a file that is written, on further sessions of the same connection:
// the host takes one window a round trip on each. Every byte has its own session, so that what is
// written there later also arrives later: blocks of extentSize bytes, which no extent crosses,
// take turns. Before lanes are used, and before anything is changed in another way afterwards, the
// host has carried out all that was sent, even if it was given up. The file's lock guards them.
type lanes struct {
	of      *handle // of the program; what is written over others ends the lanes
	files   []*usftp.File
	opening int  // OPENs without an answer
	proved  bool // to be of the same file; they are in use
}

// laneRun is how much of a file must arrive before the host is asked for sessions. If as much
// arrives again, as fast as if a window limited it, they are used.
const laneRun = 2 << 20

// lost reports whether a lane's session has ended.
func (l *lanes) lost() bool {
	return slices.ContainsFunc(l.files, func(f *usftp.File) bool { return pool.Lost(f.Client()) })
}

// lane returns the file on the session over which an extent is to be sent. The caller holds the
// turn of the file and the handle, whose own session is that of remote.
func (h *handle) lane(ctx context.Context, e *extent, remote *usftp.File) (*usftp.File, error) {
	f := h.file
	f.mu.Lock()
	l := f.lanes
	alien := e.appends || l != nil && l.of != h || l == nil && f.laneWrites > 0
	lost := l != nil && l.lost()
	open := l == nil && !h.single && len(f.handles) == 1 && f.due(remote.Client())
	opening := l != nil && l.opening > 0
	f.mu.Unlock()
	h.single = h.single || lost
	switch {
	case alien || lost:
		return remote, f.endLanes(ctx, nil, false)
	case open:
		f.openLanes(h)
		return remote, nil
	case l == nil || opening:
		return remote, nil
	case !l.proved:
		if !h.prove(ctx, l.files) {
			h.single = true
			return remote, f.endLanes(ctx, nil, false)
		}
		l.proved = true
	}
	if turn := int(e.off / extentSize % int64(len(l.files)+1)); turn > 0 {
		return l.files[turn-1], nil
	}
	return remote, nil
}

// due reports whether it is time to open lanes: enough has arrived, at such a rate that the host
// takes half a window or more in a round trip. Before that it asks for sessions. The caller holds
// the lock.
func (f *file) due(c *usftp.Client) bool {
	if f.since.IsZero() {
		f.since = time.Now()
	}
	trip, shared := f.fs.roundTrip, f.fs.link.conn.Host().Pool
	if f.arrived < laneRun || trip <= flow.StripeAtOnce || shared == nil ||
		!private.OfClient(c).WorksInOrder() {
		return false
	}
	shared.Want(1, 0)
	rate := float64(f.arrived) / time.Since(f.since).Seconds()
	f.arrived, f.since = 0, time.Now()
	return rate*trip.Seconds() > flow.SSHWindow/2
}

// openLanes opens the file once more on each further session that there is, without waiting.
func (f *file) openLanes(h *handle) {
	sessions, _ := pools.OfPool(f.fs.link.conn.Host().Pool).Sessions()
	path, ok := f.fs.tree.path(f.node)
	if len(sessions) == 0 || !ok {
		return
	}
	l := &lanes{of: h, opening: len(sessions)}
	f.mu.Lock()
	f.lanes = l
	f.mu.Unlock()
	for _, on := range sessions {
		// Without O_CREATE and O_TRUNC.
		opening := on.Client().Async().OpenFile(path, os.O_WRONLY, 0)
		opening.Then(func(file *usftp.File, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if l.opening--; err != nil {
				return // the file may be another one by now, or may be opened only once
			}
			if f.lanes != l {
				file.Async().Abandon().Forget()
				return
			}
			l.files = append(l.files, file)
		})
	}
}

// prove reports whether handles that were opened by path are of the same file as the handle's own:
// they show a time of access that is set through that, and that nobody can guess. It is the time of
// access because writing does not change it; setting it sets the time of modification too, but more
// is written at once. It is set after what was written before, by a host that works in order. The
// caller holds the handle's turn.
func (h *handle) prove(ctx context.Context, files []*usftp.File) bool {
	f := h.file
	was, err := h.remote.Async().Stat().WaitContext(ctx)
	if err != nil || !was.HasTimes() || len(files) == 0 {
		return false
	}
	set := func(atime uint32) error {
		_, err := h.remote.Async().SetAttrs(usftp.NewAttrs{SetTimes: true,
			Atime: time.Unix(int64(atime), 0),
			Mtime: time.Unix(int64(was.Mtime), 0)}).WaitContext(ctx)
		return err
	}
	f.mu.Lock()
	f.probeAtime, f.realAtime = was.Atime+1+rand.Uint32N(1<<28), was.Atime
	odd := f.probeAtime
	f.mu.Unlock()
	err = set(odd)
	if err != nil && !undecided(err) {
		return false // it may belong to another user
	}
	same := err == nil
	looks := make([]*usftp.Pending[*usftp.FileStat], len(files))
	for i, file := range files {
		looks[i] = file.Async().Stat()
	}
	for _, look := range looks {
		stat, err := look.WaitContext(ctx)
		same = same && err == nil && stat.HasTimes() && stat.Atime == odd
	}
	back := set(was.Atime)
	f.mu.Lock()
	if back != nil && !f.lastWrite.IsZero() {
		f.shownMtime = max(was.Mtime, 1) // so that the times are set when the file is closed
	}
	f.mu.Unlock()
	f.fs.outdated(f.node)
	return same && back == nil
}

// hide replaces a time of access that is only set for a proof. The caller holds the lock.
func (f *file) hide(a *attrs) {
	if f.probeAtime != 0 && a.atime == f.probeAtime {
		a.atime = f.realAtime
	}
}

// endLanes takes a handle's lanes out of use, or those of any handle, and closes them after what
// was sent over them has been answered. Unless the file is whole, they are abandoned: where files
// appear when they are closed, CLOSE would make this one appear as it is.
func (f *file) endLanes(ctx context.Context, h *handle, whole bool) error {
	f.mu.Lock()
	l := f.lanes
	if l != nil && h != nil && l.of != h {
		f.mu.Unlock()
		return nil
	}
	f.lanes = nil
	f.mu.Unlock()
	err := f.await(ctx, func() bool { return f.laneWrites == 0 })
	if l == nil {
		return err
	}
	closing := make([]*usftp.Pending[struct{}], len(l.files))
	for i, file := range l.files {
		end := file.Async().Abandon
		if whole {
			end = file.Async().Close
		}
		closing[i] = end()
	}
	for _, c := range closing {
		if _, closed := c.WaitContext(ctx); closed != nil && !lost(closed) && err == nil {
			err = closed
		}
	}
	return err
}

// drain flushes before the file changes in another way than by writing. Even if that is given up,
// it must not be carried out after what is written later, so that this goes the same way.
func (f *file) drain(ctx context.Context) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	return f.endLanes(ctx, nil, false)
}

// await waits until a condition holds, which is called with the lock.
func (f *file) await(ctx context.Context, holds func() bool) error {
	for {
		f.mu.Lock()
		is, changed := holds(), f.changed
		f.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
