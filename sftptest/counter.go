package sftptest

import (
	"io"
	"maps"
	"sync"

	"github.com/usftp/usftp/wire"
)

// Counts are the counts of a [Counter]. Sent means sent by the client.
type Counts struct {
	BytesSent, BytesReceived int64
	Writes                   int64 // calls of Write
	Reads                    int64 // calls of Read that returned bytes

	// Turns counts how often the client went from listening to speaking: the first Write, and every
	// Write before which bytes were received since the previous Write. A client that asks, waits for
	// the answer and asks again takes one turn per request; a client that keeps a window full takes
	// about one turn for each batch of answers it reads. Counting turns needs no knowledge of the
	// protocol.
	Turns int

	// RoundTrips is the depth of the conversation in terms of cause and effect. A request has depth
	// 1 + the greatest depth of the replies whose headers (length, type, id) had been read when the
	// Write that ended its own header was called. A reply has the depth of the request that it
	// answers. RoundTrips is the greatest depth of a reply received. INIT and VERSION count as a
	// request and its reply.
	//
	// So it does not depend on time: n requests with a window of k take n/k round trips however
	// they arrive. Over a link with a round trip of RTT and no rate limit, to a server that answers
	// at once, a client that never waits for anything but replies takes exactly RoundTrips x RTT.
	RoundTrips int

	// PacketsSent and PacketsReceived count packets whose header has passed, by type.
	PacketsSent, PacketsReceived map[wire.Type]int
}

// Counter is a stream that counts its traffic. It wraps the client's end.
type Counter struct {
	stream io.ReadWriteCloser

	mu       sync.Mutex
	counts   Counts
	sent     frameScanner
	received frameScanner
	heard    bool // bytes were received since the last Write
	spoken   bool
	depth    int              // the greatest depth of a reply received
	pending  map[uint32]int   // the depth of each request in flight
	initial  int              // the depth of INIT
	perWrite func(frameStart) // allocated once
	perRead  func(frameStart)
}

// maxPending limits the requests that a Counter remembers: unanswered ones beyond it are not
// tracked.
const maxPending = 1 << 20

// NewCounter returns a Counter around the client's end of a stream. Its memory is bounded: it looks
// at 9 bytes of each packet, and remembers the id of each request in flight.
func NewCounter(stream io.ReadWriteCloser) *Counter {
	c := &Counter{stream: stream, pending: make(map[uint32]int)}
	c.counts.PacketsSent, c.counts.PacketsReceived = make(map[wire.Type]int),
		make(map[wire.Type]int)
	c.perWrite, c.perRead = c.packetSent, c.packetReceived
	return c
}

// Read reads from the stream.
func (c *Counter) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if n > 0 {
		c.mu.Lock()
		c.counts.Reads++
		c.counts.BytesReceived += int64(n)
		c.heard = true
		c.received.scan(p[:n], c.perRead)
		c.mu.Unlock()
	}
	return n, err
}

// Write writes to the stream. It counts first, so that no answer arrives before its request is
// counted.
func (c *Counter) Write(p []byte) (int, error) {
	c.mu.Lock()
	if !c.spoken || c.heard {
		c.counts.Turns++
	}
	c.spoken, c.heard = true, false
	c.counts.Writes++
	c.counts.BytesSent += int64(len(p))
	c.sent.scan(p, c.perWrite)
	c.mu.Unlock()
	return c.stream.Write(p)
}

// Close closes the stream.
func (c *Counter) Close() error { return c.stream.Close() }

// Counts returns the counts since the Counter was made or reset.
func (c *Counter) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	counts.PacketsSent, counts.PacketsReceived = maps.Clone(counts.PacketsSent),
		maps.Clone(counts.PacketsReceived)
	return counts
}

// Reset sets all counts to zero. Requests in flight no longer count, and their replies do not count
// as causes; the next request has depth 1 and the next Write is a turn.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts = Counts{PacketsSent: make(map[wire.Type]int),
		PacketsReceived: make(map[wire.Type]int)}
	c.depth, c.initial, c.spoken, c.heard = 0, 0, false, false
	clear(c.pending)
}

func (c *Counter) packetSent(f frameStart) {
	c.counts.PacketsSent[f.kind]++
	switch {
	case f.kind == wire.TypeInit:
		c.initial = c.depth + 1
	case len(c.pending) < maxPending:
		c.pending[f.id] = c.depth + 1
	}
}

func (c *Counter) packetReceived(f frameStart) {
	c.counts.PacketsReceived[f.kind]++
	depth := c.initial
	if f.kind != wire.TypeVersion {
		depth = c.pending[f.id]
		delete(c.pending, f.id)
	}
	c.depth = max(c.depth, depth)
	c.counts.RoundTrips = c.depth
}
