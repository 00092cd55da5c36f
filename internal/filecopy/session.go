package filecopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/bottleneck"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/machine"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// A session is the connection to a host that a file uses during one attempt: the host's own, or one
// borrowed from the pool when many large files are in progress. A nil session stands for this
// machine.
type session struct {
	conn    *pool.Conn
	host    pool.Host
	client  *usftp.Client
	trip    time.Duration // the round trip, if one was measured
	late    bool          // it had been lost before the attempt
	release func()
}

// pool returns the host over which files are opened, nil on this machine.
func (s *session) pool() *pool.Host {
	if s == nil {
		return nil
	}
	return &s.host
}

func (s *session) lost() bool { return s != nil && pool.Lost(s.client) }

// A prover proves the contents of files on a host.
type prover struct{ *session }

func (s *session) prover() prover { return prover{s} }

// quirks returns the host's known quirks.
func (s *session) quirks() *quirks.Quirks { return pools.OfHost(&s.host).Quirks() }

// oneHandle reports whether only one file can be open at a time.
func (s *session) oneHandle() bool { return s != nil && private.OfClient(s.client).OneHandle() }

// flushes reports whether the host can flush a file to its disk.
func (s *session) flushes() bool {
	_, offered := s.client.HasExtension(wire.ExtFsync)
	return offered
}

// errWithinHost refuses a copy within a host that can have only one file open at a time.
var errWithinHost = fmt.Errorf("can only be copied by way of this machine, first here and then "+
	"back: %w", usftp.ErrOneHandle)

// sharesHandle reports whether err says that the host gives one handle to several open files.
func sharesHandle(err error) bool {
	return errors.Is(err, usftp.ErrSharedHandle) || errors.Is(err, usftp.ErrOneHandle)
}

// look calls pools.Host.Look, and keeps the round trip that it measured.
func (s *session) look(ctx context.Context, name string) (info fs.FileInfo, link bool, err error) {
	info, link, s.trip, err = pools.OfHost(&s.host).Look(ctx, name)
	return info, link, err
}

// assumedTrip is the round trip that measure assumes to decide whether measuring it is worthwhile.
const assumedTrip = 50 * time.Millisecond

// measure pings the host if the file is large and the round trip is short and was measured by TCP's
// handshake: a proxy or satellite accelerator near us may have answered the handshake, while only
// the host itself answers a ping.
func (s *session) measure(ctx context.Context, size int64) {
	if s.trip >= flow.StripeTrip || pools.OfHost(&s.host).LoginTrip() == 0 ||
		!flow.WorthStriping(size, assumedTrip) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	trip := time.Duration(0)
	for range 2 { // take the shorter: a host may be busy for a moment
		began := time.Now()
		if s.client.Ping(ctx) != nil {
			return
		}
		took := time.Since(began)
		if took < flow.StripeTrip {
			return
		}
		if trip == 0 || took < trip {
			trip = took
		}
	}
	s.trip = trip
}

// worthStriping reports whether a file, or the rest of it, should use several handles. On hosts
// that count reads a file is opened once, as on hosts whose times change while a file is read: its
// handles would seem to have different files. On hosts where handles do not see each other's writes
// it is written through one.
func (s *session) worthStriping(c *Copy, size int64, reads bool) bool {
	if s == nil || pools.OfPool(s.host.Pool).Size() < 2 || c.Limiter != nil || c.Budget.spreads() ||
		s.oneHandle() {
		return false
	}
	client, quirks := private.OfClient(s.client), s.quirks()
	if reads && (c.Options.Changing || client.ReadsOnce() || client.Touches() ||
		quirks.Touches.Load()) ||
		!reads && quirks.Separate.Load() {
		return false
	}
	s.measure(c.Ctx, size)
	return size >= worthTrial || flow.WorthStriping(size, s.trip)
}

// NewSpare is replaced by tests.
var NewSpare = machine.NewSpare

// stripe starts to open handles for a transfer; see [endpoint.NewStriper].
func (s *session) stripe(c *Copy, first *usftp.File, how endpoint.Striping) *endpoint.Striper {
	how.Pool, how.Trip, how.Quirks, how.Spare = s.host.Pool, s.trip, s.quirks(), NewSpare
	return endpoint.NewStriper(c.Ctx, first, how)
}

// judge runs copyAll, which copies a file's contents, and determines what limited it. over has the
// further handles that take part; it is nil if there are none.
func (s *session) judge(c *Copy, f *usftp.File, over *endpoint.Striper,
	copyAll func() (int64, error)) (int64, error) {
	waited := private.OfFile(f).Waited()
	w := bottleneck.NewSampler(c.Ctx, s.client, c.Pauses, c.Limiter)
	n, err := copyAll()
	lanes := 1
	if over != nil {
		lanes += over.Count()
		c.Result.Stripes = over.Joined()
	}
	if err != nil {
		w.Stop() // sampling a lost connection would take long
		return n, err
	}
	w.Local = w.Moving() - (private.OfFile(f).Waited() - waited)
	w.Limit = c.Options.RateLimit
	w.Far = s.trip >= flow.StripeTrip
	w.Windows = float64(lanes) * flow.SSHWindow / max(s.trip, 1).Seconds()
	c.Result.Bottleneck = w.End(n)
	if n >= leastDelta {
		pools.OfConn(s.conn).NoteRate(float64(n) / w.Elapsed.Seconds())
	}
	return n, nil
}

// worthTrial is the size from which a file's rate is watched: causes that slow a connection down,
// besides its window, cannot be known in advance.
const worthTrial = 4 << 20

// ends are the connections to the source's and the target's host, the same one if both are one
// host.
type ends struct {
	from, to *session
	alone    bool // other files that use both wait for this one: see Common.turn
}

// connect waits until an attempt may begin, and then for a handle, in this order: files that have
// begun may need a second one. It chooses the attempt's connections.
func (e *ends) connect(c *Copy) (release func()) {
	passed := c.Budget.pass(c)
	var leave [2]func()
	for i, conn := range c.Conns() {
		leave[i] = pools.OfConn(conn).AcquireSlot(!c.IsSmall(), &c.known.progress.ends[i])
	}
	pass := func() {}
	c.slot.take(c.Budget)
	from, to := c.Src.Conn(), c.Dst.Conn()
	e.to = newSession(c, to)
	if e.from = e.to; from != to {
		e.from = newSession(c, from)
	}
	// otherwise one file could hold the source's only handle and wait for the target's, while
	// another one does the opposite; the second host may be found out later
	e.alone = e.to != nil && e.from != nil && (e.to.oneHandle() || e.from.oneHandle())
	if e.alone {
		c.turn.Lock()
		pass = c.turn.Unlock
	}
	return func() {
		pass()
		for _, s := range e.all() {
			s.release()
		}
		for _, leave := range leave {
			if leave != nil {
				leave()
			}
		}
		passed()
	}
}

// newSession returns a host's connection, or one of its other sessions if many large files of a
// tree are under way.
func newSession(c *Copy, conn *pool.Conn) *session {
	if conn == nil {
		return nil
	}
	host := conn.Host()
	s := &session{conn: conn, host: host, client: host.Client, release: func() {}}
	if c.Budget != nil {
		s.trip = c.Budget.Trip
	}
	if c.Budget.spreads() && !c.IsSmall() {
		var lent *usftp.Client
		if lent, s.release = host.Pool.Acquire(); lent != nil {
			s.client = lent.WithContext(c.Ctx)
			s.host.Client = s.client
		}
	}
	s.late = s.lost()
	return s
}

func (e *ends) all() []*session { return present(e.to, e.from) }

// main returns the connection to the target's host, else the source's, else nil.
func (e *ends) main() *session { return cmp.Or(e.to, e.from) }

// lost reports whether either connection has ended.
func (e *ends) lost() bool { return e.from.lost() || e.to.lost() }

// hasOpen reports whether anything is open on the source's host, or on the target's.
func (e *ends) hasOpen(source bool) bool {
	s := e.to
	if source {
		s = e.from
	}
	return s != nil && private.OfClient(s.client).OpenHandles() > 0
}

// renew replaces lost connections. It reports whether any was lost and all were replaced. A file of a
// tree that may be what ends them fails before the rest of the tree does.
func (e *ends) renew(c *Copy, err error) (renewed bool) {
	known := &c.known.progress
	for i, s := range e.all() {
		if !s.lost() {
			continue
		}
		p := &known.ends[i]
		if c.Budget != nil && !s.late &&
			pools.OfConn(s.conn).Lose(p, p.Reached+c.known.again.progress.Reached) {
			known.deadly = true
			return false
		}
		if !s.conn.Renew(s.client, err, func(a pool.Attempt) {
			c.Retried(a)
		}) {
			return false
		}
		renewed = true
	}
	return renewed
}

// late returns a context for work that must not stop halfway on the target's host: after the run's
// context ends, it has the time allowed for cleaning up.
func (r *Run) late() (context.Context, func()) {
	ctx := r.Ctx
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		end, free := r.Dst.Cleanup(ctx)
		defer free()
		select {
		case <-late.Done():
		case <-end.Done():
			cancel(context.Cause(ctx))
		}
	})
	return late, func() { stop(); cancel(nil) }
}
