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
// the host takes one window a round trip on each. Every byte has its own session, so that later
// writes to the same place also arrive later: blocks of extentSize bytes, which no extent crosses,
// take turns. Before lanes are used, and before any other change of the file afterwards, the host
// has carried out all requests sent, even abandoned ones. The file's lock guards them.
type lanes struct {
	of      *handle // the program's handle; a write over another handle ends the lanes
	files   []*usftp.File
	opening int  // OPENs without an answer
	proved  bool // to belong to the same file; they are in use
}

// laneRun is how many bytes of a file must arrive before the host is asked for sessions. They are
// used if as many arrive again, at a rate that a window seems to limit.
const laneRun = 2 << 20

// lost reports whether a lane's session has ended.
func (l *lanes) lost() bool {
	return slices.ContainsFunc(l.files, func(f *usftp.File) bool { return pool.Lost(f.Client()) })
}

// lane returns the file on the session that is to send an extent. The caller holds the turns of the
// file and of the handle, whose own session is remote's.
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

// due reports whether it is time to open lanes: enough data has arrived, at a rate of half a window
// or more in a round trip. Before that it asks for sessions. The caller holds the lock.
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

// openLanes opens the file once more on each further session, without waiting.
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
				return // the path may lead to another file by now, or the file may open only once
			}
			if f.lanes != l {
				file.Async().Abandon().Forget()
				return
			}
			l.files = append(l.files, file)
		})
	}
}

// prove reports whether handles opened by path belong to the same file as the handle's own: they
// show an access time that is set through that handle and that nobody can guess. It uses the access
// time because writing does not change it; setting it sets the modification time too, but more data
// is written at once. A host that works in order sets it after the earlier writes. The caller holds
// the handle's turn.
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

// hide replaces an access time that was set for a proof. The caller holds the lock.
func (f *file) hide(a *attrs) {
	if f.probeAtime != 0 && a.atime == f.probeAtime {
		a.atime = f.realAtime
	}
}

// endLanes takes a handle's lanes, or with a nil handle those of any, out of use and closes them
// once all data sent over them has been answered. Unless the file is whole, it abandons them: on
// servers where files appear when they are closed, CLOSE would make the incomplete file appear.
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

// drain flushes the file before it changes in another way than by writing. An abandoned WRITE must
// not be carried out after later writes, so drain also ends the lanes.
func (f *file) drain(ctx context.Context) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	return f.endLanes(ctx, nil, false)
}

// await waits until a condition holds. It calls holds with the lock.
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
