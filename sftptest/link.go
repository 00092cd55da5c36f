package sftptest

import (
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"
)

// ErrCut is returned by Read and Write at both ends of a link that [End.Cut] or [End.CutAfter] cut
// without naming an error.
var ErrCut = errors.New("sftptest: link cut")

// LinkConfig describes a link's delay, rate and quirks. The zero value is a link without delay.
type LinkConfig struct {
	ToServer time.Duration // from a Write at the client's end to the Read at the server's
	ToClient time.Duration // the other way

	// RateBytesPerSec is the link's rate in each direction, in pieces of up to 16 KiB that arrive
	// whole. 0 means no limit.
	RateBytesPerSec int64

	// Buffer is how many bytes in each direction may be written and not yet read; a Write beyond that
	// blocks. 0 means 64 MiB.
	Buffer int

	// Window works like an SSH channel's window: it is how many bytes in each direction may be
	// written and not yet acknowledged. The acknowledgement is sent when they are read and takes
	// the delay of the other direction. 0 means no window.
	Window int

	// MaxPiece is the most that one Read returns: 1 makes every Read return one byte. 0 means no
	// limit.
	MaxPiece int

	// Seed, unless 0, makes each Read return a random number of bytes between 1 and MaxPiece
	// (default 4096), the same ones each time.
	Seed uint64
}

// String returns the configuration as a Go literal.
func (c LinkConfig) String() string { return "sftptest.LinkConfig" + literal(reflect.ValueOf(c)) }

// RTT returns the link's round trip.
func (c LinkConfig) RTT() time.Duration { return c.ToServer + c.ToClient }

const (
	defaultBuffer = 64 << 20
	defaultPiece  = 4096
)

// NewLink returns the two ends of a link: bytes written at one are read at the other, in order,
// after the delay; as many writes as fit in the buffer are on their way at once.
//
// A link has no goroutine and blocks only on timers and sync.Cond. So it works in real time as well
// as inside testing/synctest, where a test of a long link takes no time and can assert exact times.
func NewLink(c LinkConfig) (client, server *End) {
	shared := &linkState{}
	toServer := newDirection(shared, c, c.ToServer, c.ToClient, 1)
	toClient := newDirection(shared, c, c.ToClient, c.ToServer, 2)
	return &End{link: shared, out: toServer, in: toClient}, &End{link: shared, out: toClient,
		in: toServer}
}

// linkState is shared by the two directions: they have one lock, since a cut affects both at once.
type linkState struct {
	mu     sync.Mutex
	both   [2]*direction
	cut    bool
	cutErr error
}

func newDirection(link *linkState, c LinkConfig, delay, back time.Duration,
	number uint64) *direction {
	d := &direction{link: link, delay: delay, back: back, rate: c.RateBytesPerSec,
		buffer: c.Buffer, window: c.Window, maxPiece: c.MaxPiece, left: unlimited}
	d.cond.L = &link.mu
	if d.buffer <= 0 {
		d.buffer = defaultBuffer
	}
	if c.Seed != 0 {
		d.rng = rand.New(rand.NewPCG(c.Seed, number))
		if d.maxPiece <= 0 {
			d.maxPiece = defaultPiece
		}
	}
	link.both[number-1] = d
	return d
}

// End is one end of a link. It is safe for concurrent use.
type End struct {
	link    *linkState
	out, in *direction
}

var _ io.ReadWriteCloser = (*End)(nil)

// Read returns the bytes that have arrived, or waits until some do. It returns io.EOF after
// everything that the other end sent before it closed, io.ErrClosedPipe after Close at this end,
// and the error of a cut.
func (e *End) Read(p []byte) (int, error) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.in.read(p)
}

// Write sends p, which it copies. It blocks only while the buffer or window is full. It returns
// io.ErrClosedPipe after Close at this end, and once the other end's Close has become known here;
// after a cut it returns the cut's error.
func (e *End) Write(p []byte) (int, error) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	return e.out.write(p)
}

// CloseWrite ends the stream from this end: the other end reads the bytes on their way, and then
// io.EOF.
func (e *End) CloseWrite() error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.out.closeWrite()
	return nil
}

// Close closes both directions: it works like CloseWrite, and drops bytes that arrive from now on.
// It never blocks, and wakes all waiters at this end.
func (e *End) Close() error {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.in.closeRead(e.out.closeWrite())
	return nil
}

// Cut breaks the link now, in both directions, as if the connection were reset. Bytes that have
// arrived can still be read, bytes on their way are lost; then Read and Write return err at both
// ends ([ErrCut] if it is nil; if it is io.EOF, Write returns io.ErrClosedPipe).
func (e *End) Cut(err error) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.link.breakNow(err)
}

// CutAfter breaks the link like [End.Cut] at the moment when n more bytes from this end have
// arrived at the other: these can be read there, and not one more.
func (e *End) CutAfter(n int64, err error) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.out.limit(n, func() { e.link.breakNow(err) })
}

// Silence turns one direction into a black hole: bytes that this end sends from now on vanish, its
// Writes succeed, and neither end notices; the other end does not learn of a Close at this end.
// Bytes on their way still arrive.
func (e *End) Silence() { e.SilenceAfter(0) }

// SilenceAfter works like [End.Silence], once n more bytes have been sent.
func (e *End) SilenceAfter(n int64) {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.out.limit(n, nil)
}

// Hold stops one direction: bytes that this end has sent and sends arrive only after [End.Release],
// as over a network that is down for a while. Writes block once the buffer is full, as to a peer
// that has stopped reading.
func (e *End) Hold() {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	if e.out.heldAt.IsZero() {
		e.out.heldAt = time.Now()
	}
}

// Release ends [End.Hold]. Bytes that would have arrived in the meantime arrive at once.
func (e *End) Release() {
	e.link.mu.Lock()
	defer e.link.mu.Unlock()
	e.out.heldAt = time.Time{}
	e.out.cond.Broadcast()
}

// breakNow cuts the link. The caller holds the lock.
func (l *linkState) breakNow(err error) {
	if l.cut {
		return
	}
	l.cut, l.cutErr = true, cmp.Or(err, ErrCut)
	for _, d := range l.both {
		d.dropUndelivered()
		d.cond.Broadcast()
	}
}
