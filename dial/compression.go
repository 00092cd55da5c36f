package dial

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	own "github.com/usftp/usftp/internal/ssh"
)

// A Compression measures whether compressing connections saves time. The zero value is ready, for
// any number of connections; see [Config].Compression.
type Compression struct {
	mu    sync.Mutex
	conns []*own.Compressed
	rates []float64 // bytes per second at which the link took the data
}

const (
	// leastSpent is how long compressing must have taken for it to matter.
	leastSpent = time.Second

	// mostly is the share of the time it must have taken to be the bottleneck.
	mostly = 0.5

	// saves is the ratio to which compression must shrink data to be of use on any link.
	saves = 0.95

	leastCounted = 1 << 20 // bytes over a connection

	rateEvery = 250 * time.Millisecond
	leastRate = 3    // samples
	mostRates = 4096 // kept
)

// counts returns the counters for another connection. A nil Compression counts nothing.
func (c *Compression) counts() *own.Compressed {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := new(own.Compressed)
	c.conns = append(c.conns, counts)
	return counts
}

// compressed sums up one direction of all connections.
type compressed struct {
	plain, packed  float64       // bytes
	spent, elapsed time.Duration // for compression, and in total
}

// add adds one connection, unless hardly any data went over it.
func (s *compressed) add(w *own.CompressedWay) {
	if w.Plain.Load() < leastCounted {
		return
	}
	s.plain += float64(w.Plain.Load())
	s.packed += float64(w.Packed.Load())
	s.spent += time.Duration(w.Spent.Load())
	s.elapsed += time.Duration(w.Last.Load() - w.First.Load())
}

// Advice says in one sentence, for people, that compression cost more time than it saved, where
// that can be measured; otherwise it is "". A host's time for compressing its data cannot be
// measured here, and the speed of the link only on Linux, without a jump host or proxy, while we
// send.
func (c *Compression) Advice() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sent, received compressed
	for _, conn := range c.conns {
		sent.add(&conn.Sent)
		received.add(&conn.Received)
	}
	s, verb := sent, "compressing"
	if received.plain > sent.plain {
		s, verb = received, "decompressing"
	}
	rate := c.rate()
	asTheyAre := s.plain / rate
	took := fmt.Sprintf("%s took %.1f s and made", verb, s.spent.Seconds())
	switch {
	case s.spent < leastSpent:
	case s.packed > saves*s.plain:
		return took + " it hardly smaller: it is better not to compress this"
	case verb == "compressing" && rate > 0 && asTheyAre < s.spent.Seconds() &&
		s.spent.Seconds() > mostly*s.elapsed.Seconds():
		return fmt.Sprintf("%s %.0f MB of %.0f MB, which the link carries as they are in %.1f s: it is faster not to compress here",
			took, s.packed/1e6, s.plain/1e6, asTheyAre)
	}
	return ""
}

// rate returns the median of the rates, 0 if there are too few. At the beginning a buffer on the
// way may have taken everything. The caller holds the lock.
func (c *Compression) rate() float64 {
	if len(c.rates) < leastRate {
		return 0
	}
	slices.Sort(c.rates)
	return c.rates[len(c.rates)/2]
}

// watch samples how fast a connection's link is until the connection ends.
func (c *Compression) watch(conn *Conn, counts *own.Compressed, socket *net.TCPConn) {
	ticker := time.NewTicker(rateEvery)
	defer ticker.Stop()
	for sent := int64(0); ; {
		select {
		case <-ticker.C:
		case <-conn.ctx.Done():
			return
		}
		was := sent
		if sent = counts.Sent.Packed.Load(); sent-was < 64<<10 {
			continue // too little to measure
		}
		if rate := deliveryRate(socket); rate > 0 {
			c.mu.Lock()
			if len(c.rates) < mostRates {
				c.rates = append(c.rates, rate)
			}
			c.mu.Unlock()
		}
	}
}
