package pipes

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Counted counts the calls that a client makes on its stream. On a pipe or a socket each is one
// system call.
type Counted struct {
	R io.Reader
	W io.WriteCloser

	Reads, Writes, BytesRead, BytesWritten atomic.Int64
}

func (c *Counted) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.Reads.Add(1)
	c.BytesRead.Add(int64(n))
	return n, err
}

func (c *Counted) Write(p []byte) (int, error) {
	n, err := c.W.Write(p)
	c.Writes.Add(1)
	c.BytesWritten.Add(int64(n))
	return n, err
}

func (c *Counted) Close() error { return c.W.Close() }

// Reset sets the counters back to zero.
func (c *Counted) Reset() {
	for _, counter := range []*atomic.Int64{&c.Reads, &c.Writes, &c.BytesRead, &c.BytesWritten} {
		counter.Store(0)
	}
}

// DelayQueue is the number of writes that may be on their way at once: with it a delayed link
// carries no more than that many Write calls per delay, whatever their size, and none of the
// libraries is held back by rate.
const DelayQueue = 128

type delayedWrite struct {
	due  time.Time
	data []byte
}

// Delayed hands each Write on after a delay, keeping their order and letting many be on their way
// at once.
type Delayed struct {
	w     io.WriteCloser
	delay time.Duration
	queue chan delayedWrite
	// buffers to use again, so that the link's garbage is not counted as the client's
	free   chan []byte
	mu     sync.RWMutex // held for reading by Write, so that Close never closes the queue under one
	closed bool
	failed chan struct{}
	err    error
	done   chan struct{}
}

// NewDelayed delays the writes to w.
func NewDelayed(w io.WriteCloser, delay time.Duration) *Delayed {
	d := &Delayed{
		w:      w,
		delay:  delay,
		queue:  make(chan delayedWrite, DelayQueue),
		free:   make(chan []byte, DelayQueue),
		failed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	go d.deliver()
	return d
}

func (d *Delayed) deliver() {
	defer close(d.done)
	for write := range d.queue {
		time.Sleep(time.Until(write.due))
		if d.err != nil {
			continue
		}
		if _, err := d.w.Write(write.data); err != nil {
			d.err = err
			close(d.failed)
		}
		select {
		case d.free <- write.data:
		default:
		}
	}
}

func (d *Delayed) copyOf(p []byte) []byte {
	var buffer []byte
	select {
	case buffer = <-d.free:
	default:
	}
	return append(buffer[:0], p...)
}

// Write copies p, for its caller may use it again at once.
func (d *Delayed) Write(p []byte) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return 0, io.ErrClosedPipe
	}
	select {
	case <-d.failed:
		return 0, d.err
	case d.queue <- delayedWrite{time.Now().Add(d.delay), d.copyOf(p)}:
		return len(p), nil
	}
}

// Close delivers the data on its way and closes the stream.
func (d *Delayed) Close() error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.queue)
	}
	d.mu.Unlock()
	<-d.done
	return d.w.Close()
}
