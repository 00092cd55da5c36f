package sftptest

import (
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// outboxRoom is how many bytes of replies may wait before the server stops reading requests.
	outboxRoom = 8 << 20
	// reorderWait is how long replies wait for others to be reordered with.
	reorderWait = time.Millisecond
)

// outbox holds the replies that are ready and writes them on its own goroutine, so that a delayed
// reply can be sent in any state of the stream.
type outbox struct {
	stream io.WriteCloser

	mu     sync.Mutex
	cond   sync.Cond
	queue  [][]byte // packets
	size   int      // of queue, in bytes
	taken  int      // bytes being written
	hangup bool     // close after queue, and accept nothing more
	ended  bool

	window  int // of reordering; 0 or 1 means none
	waiting [][]byte
	rng     *rand.Rand
	timer   *time.Timer
}

func newOutbox(stream io.WriteCloser, window int, rng *rand.Rand) *outbox {
	o := &outbox{stream: stream, window: window, rng: rng}
	o.cond.L = &o.mu
	return o
}

// send queues packets; it never blocks. With hangup the stream is closed after them.
func (o *outbox) send(packets [][]byte, hangup bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended || o.hangup {
		return
	}
	if o.window > 1 {
		o.waiting = append(o.waiting, packets...)
		if len(o.waiting) >= o.window || hangup {
			o.shuffle()
		} else {
			o.shuffleSoon()
		}
	} else {
		o.enqueue(packets)
	}
	o.hangup = hangup
	o.cond.Broadcast()
}

func (o *outbox) enqueue(packets [][]byte) {
	o.queue = append(o.queue, packets...)
	for _, packet := range packets {
		o.size += len(packet)
	}
}

// shuffle queues waiting replies in random order. It is called with the lock held.
func (o *outbox) shuffle() {
	o.rng.Shuffle(len(o.waiting),
		func(i, j int) { o.waiting[i], o.waiting[j] = o.waiting[j], o.waiting[i] })
	o.enqueue(o.waiting)
	clear(o.waiting)
	o.waiting = o.waiting[:0]
	o.cond.Broadcast()
}

// shuffleSoon shuffles once no reply has come for a while. It is called with the lock held.
func (o *outbox) shuffleSoon() {
	if o.timer != nil {
		o.timer.Reset(reorderWait)
		return
	}
	o.timer = time.AfterFunc(reorderWait, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.ended && !o.hangup {
			o.shuffle()
		}
	})
}

// waitForRoom waits until little enough remains to be written. Delayed replies do not count.
func (o *outbox) waitForRoom() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size+o.taken > outboxRoom && !o.ended && !o.hangup {
		o.cond.Wait()
	}
}

// end drops unwritten packets and makes run return.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.cond.Broadcast()
}

// run writes until end is called or the stream fails. It sends all ready packets with one Write,
// except large packets, which have one each.
func (o *outbox) run() {
	var spare [][]byte
	var batch []byte
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.hangup && !o.ended {
			o.cond.Wait()
		}
		if o.ended {
			o.mu.Unlock()
			return
		}
		packets, hangup := o.queue, o.hangup
		o.queue, o.size, o.taken = spare[:0], 0, o.size
		o.mu.Unlock()

		var err error
		batch, err = o.write(packets, batch[:0])
		if err != nil || hangup {
			o.stream.Close()
			o.end()
			return
		}
		clear(packets)
		spare = packets
		o.mu.Lock()
		o.taken = 0
		o.cond.Broadcast()
		o.mu.Unlock()
	}
}

// largePacket is the size from which a packet is written by itself instead of being copied into a
// batch.
const largePacket = 16 << 10

// write writes packets, and returns batch to be used again.
func (o *outbox) write(packets [][]byte, batch []byte) ([]byte, error) {
	for _, packet := range packets {
		if len(packet) < largePacket {
			batch = append(batch, packet...)
			continue
		}
		if len(batch) > 0 {
			if _, err := o.stream.Write(batch); err != nil {
				return batch, err
			}
			batch = batch[:0]
		}
		if _, err := o.stream.Write(packet); err != nil {
			return batch, err
		}
	}
	if len(batch) == 0 {
		return batch, nil
	}
	_, err := o.stream.Write(batch)
	return batch[:0], err
}
