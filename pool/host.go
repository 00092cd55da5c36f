package pool

import (
	"context"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/quirks"
)

// A Host is a server to copy from or to. Only Client is required; [Connect] fills in the rest.
type Host struct {
	Client *usftp.Client
	Name   string // "host" or "user@host", for messages and events

	// Identity identifies the host in the journal, whatever name it was reached by: for example,
	// user and host key. "" means Name.
	Identity string

	// Redial, if not nil, replaces the Client's lost connection. It may be called several times,
	// and by several copies. Once the connection that an earlier call made is lost, too, the next
	// call replaces that one. If the Host that it returns has no Redial, this one is kept.
	Redial func(context.Context) (Host, error)

	// Helper, if not nil, returns a client of usftp's own server running on the host, for
	// operations that the host's server does not offer, or nil if there is none. It may show other
	// files than the host's server, or act as another user: a copy proves the results it gets
	// through it. The caller may close it. Helper may be called often and from several goroutines.
	Helper func(context.Context) *usftp.Client

	// Pool provides further connections for large files over long links. Nil means to use Client
	// alone.
	Pool *Pool

	// Quirks holds the facts known about the host's behaviour. Nil means that each copy finds out
	// for itself.
	Quirks *Quirks

	first *firstRequest // nil if no request was sent along with the login
}

// Quirks are the facts that a host has shown about its behaviour since the login, on any
// connection, so that thousands of files need not each discover and report them. Only copies use
// them: the zero Quirks, which knows nothing yet, is shared by setting [Host.Quirks].
type Quirks struct{ known quirks.Quirks }

// privateHost has the methods for package transfer; package pools documents them.
type privateHost struct{ *Host }

// Quirks implements pools.Host.
func (h privateHost) Quirks() *quirks.Quirks { return &h.Host.Quirks.known }

// A firstRequest is sent along with the session's first packet because the first copy will need its
// answer. That saves a round trip.
type firstRequest struct {
	path  string
	opens bool // open a file for reading; otherwise stat the path

	asked bool
	taken atomic.Bool
	trip  time.Duration // as measured by the login; this request also waits for the server to start
	done  chan struct{} // closed once the fields below are set
	file  *usftp.File
	info  fs.FileInfo
	link  bool // path is a symbolic link
	err   error
}

// start sends the request.
func (r *firstRequest) start(c *usftp.Client) {
	r.asked = true
	go func() {
		defer close(r.done)
		if r.opens {
			r.file, r.err = c.OpenRead(r.path)
		} else {
			r.info, r.link, r.err = look(c, r.path)
		}
	}()
}

// take returns the first request if it is for exactly this path and has not been taken yet,
// otherwise nil.
func (h *Host) take(ctx context.Context, path string, opens bool) *firstRequest {
	r := h.first
	if r == nil || r.path != path || r.opens != opens || r.taken.Swap(true) {
		return nil
	}
	select {
	case <-r.done:
		return r
	case <-ctx.Done():
		return nil
	}
}

// LoginTrip implements pools.Host.
func (h privateHost) LoginTrip() time.Duration {
	if r := h.first; r != nil && r.taken.Load() {
		return r.trip
	}
	return 0
}

// OpenRead implements pools.Host.
func (h privateHost) OpenRead(ctx context.Context,
	path string) (f *usftp.File, trip time.Duration, err error) {
	if r := h.take(ctx, path, true); r != nil {
		if r.err != nil {
			return nil, 0, r.err
		}
		return r.file.WithContext(ctx), r.trip, nil
	}
	began := time.Now()
	f, err = h.Client.WithContext(ctx).OpenRead(path)
	return f, time.Since(began), err
}

// Stat implements pools.Host.
func (h privateHost) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	if r := h.take(ctx, path, false); r != nil {
		return r.info, r.err
	}
	return private.OfClient(h.Client.WithContext(ctx)).Find(path)
}

// Look implements pools.Host.
func (h privateHost) Look(ctx context.Context,
	path string) (info fs.FileInfo, link bool, trip time.Duration, err error) {
	if r := h.take(ctx, path, false); r != nil {
		return r.info, r.link, r.trip, r.err
	}
	began := time.Now()
	info, link, err = look(h.Client.WithContext(ctx), path)
	return info, link, time.Since(began), err
}

func look(c *usftp.Client, path string) (info fs.FileInfo, link bool, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if l, err := private.OfClient(c).Look(path); err == nil {
			link = l.Mode()&fs.ModeSymlink != 0
		}
	}()
	info, err = private.OfClient(c).Find(path)
	<-answered
	return info, link, err
}
