package pool

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
)

// A Host is a server to copy from or to. Only Client is required; [Connect] fills in the rest.
type Host struct {
	Client *usftp.Client
	Name   string // "host" or "user@host", for messages and events

	// Identity identifies the host in the journal, whatever name it was reached by: for example,
	// user and host key. "" means Name.
	Identity string

	// Redial, if not nil, replaces a lost connection. It may be called several times, and closes
	// what an earlier call opened.
	Redial func(context.Context) (Host, error)

	// Helper, if not nil, returns a client of usftp's own server running on the host, for
	// operations that the host's server does not offer, or nil if there is none. Both servers must
	// show the same files. It may be called often and from several goroutines.
	Helper func(context.Context) *usftp.Client

	// Pool provides further connections for large files over long links. Nil means to use Client
	// alone.
	Pool *Pool

	// Quirks holds what is known about the host's behaviour. Nil means that each copy finds out for
	// itself.
	Quirks *Quirks

	first *firstRequest // nil if no request was sent along with the login
}

// ID returns the host's Identity, or its Name if it has none.
func (h *Host) ID() string {
	if h.Identity == "" {
		return h.Name
	}
	return h.Identity
}

// Quirks is what a host has shown since the login, on any connection, so that thousands of files
// need not each discover and report it.
type Quirks struct {
	Separate    atomic.Bool // one handle does not see what another one wrote
	Touches     atomic.Bool // a file being read shows the current time as its mtime
	NoTemporary atomic.Bool // temporary names are refused where the target's own name is not
	NoRename    atomic.Bool // files cannot be renamed
	Reported    atomic.Bool // the user has been told of one of the last two
	WholeFiles  atomic.Bool // existing files are written only if they are emptied first
	Clock       Clock
}

// A Clock measures how far a host's clock is behind ours. SFTP does not tell the time, but Linux
// stamps a file in /proc when it is first looked up, and each SFTP session is a process of its own.
type Clock struct {
	mu     sync.Mutex
	asked  chan struct{} // closed when the host has answered, or the connection was lost; nil before
	behind time.Duration
	known  bool
}

// ownClock is a file of the server's process that nobody else looks at.
const ownClock = "/proc/self/mountstats"

// Ask asks the host, without waiting for the answer, unless it has been asked already. A stale
// stamp makes the clock look further behind than it is, which is safe.
func (k *Clock) Ask(c *usftp.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked != nil {
		return
	}
	asked := make(chan struct{})
	k.asked = asked
	go func() {
		defer close(asked)
		info, err := c.Lstat(ownClock)
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err == nil && info.Sys().(*usftp.FileStat).HasTimes():
			k.behind, k.known = time.Since(info.ModTime()), true
		case err != nil && Lost(c):
			k.asked = nil // ask again on the next connection
		}
	}()
}

// Behind waits for the answer. known is false if the host was not asked, was lost, or has no /proc.
// The error is the cause of ctx.
func (k *Clock) Behind(ctx context.Context) (behind time.Duration, known bool, err error) {
	k.mu.Lock()
	asked := k.asked
	k.mu.Unlock()
	if asked == nil {
		return 0, false, nil
	}
	select {
	case <-asked:
	default:
		select {
		case <-asked:
		case <-ctx.Done():
			return 0, false, context.Cause(ctx)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.behind, k.known, nil
}

// A firstRequest is sent along with the session's first packet because the first copy will need its
// answer. That saves a round trip.
type firstRequest struct {
	path  string
	opens bool // open a file for reading; otherwise stat the path

	asked bool
	taken atomic.Bool
	trip  time.Duration // as the login measured it; this request also waits for the server to start
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

// take returns the first request if it asked exactly this and has not been taken yet, otherwise
// nil.
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

// LoginTrip returns the round trip measured during the login if the first request's answer was
// used, otherwise 0.
func (h *Host) LoginTrip() time.Duration {
	if r := h.first; r != nil && r.taken.Load() {
		return r.trip
	}
	return 0
}

// OpenRead opens a file for reading together with its attributes, and returns how long the round
// trip took.
func (h *Host) OpenRead(ctx context.Context,
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

// Stat returns what a path refers to, following symbolic links.
func (h *Host) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	if r := h.take(ctx, path, false); r != nil {
		return r.info, r.err
	}
	return h.Client.WithContext(ctx).Stat(path)
}

// Look reports in one round trip what a path refers to and whether the path itself is a symbolic
// link, and how long that took.
func (h *Host) Look(ctx context.Context,
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
		if l, err := c.Lstat(path); err == nil {
			link = l.Mode()&fs.ModeSymlink != 0
		}
	}()
	info, err = c.Stat(path)
	<-answered
	return info, link, err
}
