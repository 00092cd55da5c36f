// Package conn is the client's side of one byte stream that speaks SFTP: request ids, the table of
// calls in flight, one reader, one writer, the byte budget, and orderly shutdown. It knows packets,
// not files.
//
// A [Call] is one request. [Conn.Start] queues it. When its reply has arrived, or the connection
// has ended, the call's Completer is called, exactly once. Completers run on the connection's own
// goroutines: they belong to this module, never to a user, and never block.
package conn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

// Config holds a connection's settings. The zero Config is valid.
type Config struct {
	// MaxInFlight limits the bytes in flight: data of WRITEs that are not acknowledged, and data
	// that READs have requested. 0 means DefaultMaxInFlight.
	MaxInFlight int64

	// Shared, if not nil, also limits the total that several connections have in flight.
	Shared *Shared

	// StallTimeout is how long data of a READ or WRITE may be overdue. While only other replies are
	// due, it is how long the peer may be silent: no bytes, and no answer to Keepalive. What only
	// looks something up may take several times as long, see Conn.unanswered. 0 means
	// DefaultStallTimeout, and a negative value forever.
	StallTimeout time.Duration

	// Keepalive asks the transport whether the peer is alive, and returns nil if the peer has
	// answered in any way. If it is nil, what opens or changes something may take any time.
	Keepalive func(context.Context) error

	// Error translates this package's errors for callers. nil leaves them as they are.
	Error func(error) error

	// Ended is called once, on its own goroutine, when the connection has ended.
	Ended func(error)

	// OneHandle, if not nil, is shared by the connections to one host: it becomes true when the
	// server gives one handle to several open files, and then each has one open at a time.
	OneHandle *atomic.Bool

	// SharedHandle, if not nil, is called once, on its own goroutine, when this connection is the
	// first to discover that.
	SharedHandle func()

	// Logger gets messages that a person may want to read. nil discards them.
	Logger *slog.Logger
}

const (
	// DefaultMaxInFlight lets one transfer have 64 requests of 255 KiB in flight, which by the rule
	// of [Conn.Room] is half.
	DefaultMaxInFlight = 32 << 20

	// DefaultStallTimeout is as long as advice to users of rsync and lftp recommends, and shorter
	// than most firewalls' memory.
	DefaultStallTimeout = 60 * time.Second
)

// Conn is one connection. Its methods may be called from any goroutine.
type Conn struct {
	config Config
	in     input
	out    io.WriteCloser
	// writes to out without blocking, for the setter of busy; nil if out does not support it
	try    *tryWriter
	pool   buffer.Pool
	server wire.InitReply

	ready chan struct{}   // closed when VERSION has arrived
	life  context.Context // done when the connection has ended
	die   context.CancelFunc
	idle  sync.WaitGroup

	stats counters

	mu      sync.Mutex
	err     error // why the connection ended; nil while it lives
	slots   []*Call
	free    []uint32 // unused slots
	uses    uint16   // counts requests, for their ids
	active  int      // calls in flight
	budget  budget
	handles handles
	urgent  callList // requests without data
	bulk    callList // WRITEs, and requests that must not overtake them
	queued  int      // bytes in bulk
	left    outgoing // the rest of a request that was written at once
	busy    bool     // the writer, or a caller that writes at once, is writing to the stream
	wake    sync.Cond
	stall   stall
	slow    bool  // the last Write took long; the writer's own
	recycle *Call // calls to use again
	spare   int
}

// New starts a connection on a stream, which it owns from then on: it reads r and writes w, and at
// the end closes w, and r if it is an [io.Closer]. It sends INIT at once; see [Conn.Handshake].
func New(r io.Reader, w io.WriteCloser, config Config) *Conn {
	if config.MaxInFlight <= 0 {
		config.MaxInFlight = DefaultMaxInFlight
	}
	config.StallTimeout = cmp.Or(config.StallTimeout, DefaultStallTimeout)
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	config.OneHandle = cmp.Or(config.OneHandle, new(atomic.Bool))
	c := &Conn{
		config: config,
		out:    w,
		try:    newTryWriter(w),
		busy:   true, // INIT
		ready:  make(chan struct{}),
	}
	c.life, c.die = context.WithCancel(context.Background())
	c.in = input{source: r, buf: make([]byte, inputSize), count: &c.stats.bytesRead,
		heard: &c.stall.heard, moved: &c.stall.moved}
	c.budget = budget{free: config.MaxInFlight, most: config.MaxInFlight, shared: config.Shared,
		requests: maxRequests, oneHandle: config.OneHandle.Load()}
	c.wake.L = &c.mu
	c.idle.Go(c.readLoop)
	c.idle.Go(c.writeLoop)
	return c
}

// Pool returns the pool of blocks that carry the connection's data.
func (c *Conn) Pool() *buffer.Pool { return &c.pool }

// Server returns the server's VERSION. It is valid after [Conn.Handshake].
func (c *Conn) Server() *wire.InitReply { return &c.server }

// Dead returns a channel that is closed when the connection has ended.
func (c *Conn) Dead() <-chan struct{} { return c.life.Done() }

// Err returns why the connection ended, or nil while it is alive.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// closeGrace is how long Close waits for a stream that is slow to close.
const closeGrace = time.Second

// flushGrace is how long Close waits for queued requests to be written.
const flushGrace = closeGrace / 10

// Close writes the short requests that are queued, if the stream takes them soon, and ends the
// connection: it completes every call in flight with [ErrClosed] and closes the stream. It returns
// when the connection's goroutines have ended, or after a second if one is in a Read or Write of
// the stream that closing does not interrupt; that goroutine touches nothing afterwards. Close
// always returns nil, and may be called more than once.
func (c *Conn) Close() error {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	c.flush()
	c.end(ErrClosed)
	done := make(chan struct{})
	go func() {
		c.idle.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-timer.C:
	}
	return nil
}

// public returns an error in the form for callers.
func (c *Conn) public(err error) error {
	if c.config.Error == nil {
		return err
	}
	return c.config.Error(err)
}

// end ends the connection for the given reason. Only the first reason counts.
func (c *Conn) end(err error) {
	_, stalled := err.(*StallError)
	err = c.public(err)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := make([]*Call, 0, c.active)
	for _, call := range c.slots {
		if call == nil {
			continue
		}
		if call.Err = err; call.overdue {
			call.Err = Unanswered{err}
		}
		if call.writing {
			call.Payload.Forget() // the stream's Write may go on reading it
		} else {
			call.Payload.Release()
		}
		call.Payload, call.Request, call.Data = nil, nil, nil
		call.Discard() // a reply that came before the whole request was sent
		calls = append(calls, call)
	}
	c.slots, c.free = nil, nil
	c.active = 0
	c.urgent, c.bulk, c.queued, c.left = callList{}, callList{}, 0, outgoing{}
	c.budget.end()
	if c.stall.timer != nil {
		c.stall.timer.Stop()
	}
	c.idle.Add(1) // for closing c.out; under mu, before Close can wait
	c.die()
	c.wake.Broadcast()
	c.mu.Unlock()

	complete(calls)
	c.closeStream(stalled)
	c.pool.Close()
	if c.config.Ended != nil {
		go c.config.Ended(err)
	}
}

// An abandoner is a stream that can end without sending its unsent data. After a stall it must do
// so: the peer would otherwise carry out WRITEs that the caller has since sent again over another
// connection, and perhaps overwritten.
type abandoner interface{ Abandon() error }

// closeStream closes both sides of the stream at once, each on a goroutine of its own: closing one
// may block, as its Write does, until the other is closed.
func (c *Conn) closeStream(stalled bool) {
	closeSide := func(side io.Closer) {
		defer c.idle.Done()
		end := side.Close
		if a, ok := side.(abandoner); ok && stalled {
			end = a.Abandon
		}
		if err := end(); err != nil && !errors.Is(err, io.EOF) {
			c.config.Logger.Debug("closing the stream", "error", err)
		}
	}
	if source, ok := c.in.source.(io.Closer); ok && !same(c.in.source, c.out) {
		c.idle.Add(1)
		go closeSide(source)
	}
	go closeSide(c.out)
}

// same reports whether both sides are one value, which must be closed only once.
func same(r io.Reader, w io.Writer) bool {
	return reflect.ValueOf(r).Comparable() && any(r) == any(w)
}

// Stats are counts since the connection began.
type Stats struct {
	BytesRead    int64 // from the stream
	BytesWritten int64 // to the stream
	Requests     int64 // sent
	Replies      int64 // received
	// length of the longest chain in which each request was started after the previous one's reply
	RoundTrips int64
}

type counters struct {
	bytesRead, bytesWritten, requests, replies, roundTrips atomic.Int64
}

// Stats returns the counts so far.
func (c *Conn) Stats() Stats {
	return Stats{
		BytesRead:    c.stats.bytesRead.Load(),
		BytesWritten: c.stats.bytesWritten.Load(),
		Requests:     c.stats.requests.Load(),
		Replies:      c.stats.replies.Load(),
		RoundTrips:   c.stats.roundTrips.Load(),
	}
}
