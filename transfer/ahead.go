package transfer

import (
	"context"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
)

// ahead is what a host was asked along with the first request of its session, since the first job
// or tree will ask it first. It saves that a round trip.
type ahead struct {
	path  string
	opens bool // a file that will be read; else what is at path is looked at

	asked bool
	taken atomic.Bool
	// as the login has found it: this answer waits for the server's program to start, too
	trip time.Duration
	done chan struct{} // closed when what follows is known
	file *usftp.File
	info fs.FileInfo // what the path leads to
	link bool        // whether it is a symbolic link
	err  error
}

// aheadOf says what is to be asked ahead; nil where nobody has said.
func (c *ConnectConfig) aheadOf() *ahead {
	switch {
	case c.Source != "":
		return &ahead{path: c.Source, opens: true, done: make(chan struct{})}
	case c.Look != "":
		return &ahead{path: c.Look, done: make(chan struct{})}
	}
	return nil
}

// start asks, where the host may be asked ahead.
func (a *ahead) start(c *usftp.Client) {
	a.asked = true
	go func() {
		defer close(a.done)
		if a.opens {
			a.file, a.err = c.OpenRead(a.path)
		} else {
			a.info, a.link, a.err = look(c, a.path)
		}
	}()
}

// take returns the answer where exactly this was asked, once; nil where it was not.
func (h *Host) take(ctx context.Context, path string, opens bool) *ahead {
	a := h.ahead
	if a == nil || a.path != path || a.opens != opens || a.taken.Swap(true) {
		return nil
	}
	select {
	case <-a.done:
		return a
	case <-ctx.Done():
		return nil
	}
}

// askedAhead returns how long the way there and back took for what was asked ahead and taken up, 0
// where nothing was.
func (h *Host) askedAhead() time.Duration {
	if a := h.ahead; a != nil && a.taken.Load() {
		return a.trip
	}
	return 0
}

// openRead opens a file for reading, knowing its attributes, and tells how long the way there and
// back took.
func (h *Host) openRead(ctx context.Context,
	path string) (f *usftp.File, trip time.Duration, err error) {
	if a := h.take(ctx, path, true); a != nil {
		if a.err != nil {
			return nil, 0, a.err
		}
		return a.file.WithContext(ctx), a.trip, nil
	}
	began := time.Now()
	f, err = h.Client.OpenRead(path)
	return f, time.Since(began), err
}

// stat looks at what a path leads to.
func (h *Host) stat(ctx context.Context, path string) (fs.FileInfo, error) {
	if a := h.take(ctx, path, false); a != nil {
		return a.info, a.err
	}
	return h.Client.Stat(path)
}

// look asks at once what a path leads to and whether it is a symbolic link.
func (h *Host) look(ctx context.Context,
	path string) (info fs.FileInfo, link bool, trip time.Duration, err error) {
	if a := h.take(ctx, path, false); a != nil {
		return a.info, a.link, a.trip, a.err
	}
	began := time.Now()
	info, link, err = look(h.Client, path)
	return info, link, time.Since(began), err
}

func look(c *usftp.Client, path string) (info fs.FileInfo, link bool, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if l, err := c.Lstat(path); err == nil {
			link = l.Mode()&fs.ModeSymlink != 0
		}
	}()
	info, err = c.Stat(path)
	<-answered
	return info, link, err
}
