package server

import (
	"errors"
	"io"
	"sync"

	"github.com/usftp/usftp/internal/buffer"
)

// output sends replies. A goroutine that finds no other one writing writes everything queued, so
// replies queued in the meantime are sent together.
type output struct {
	w    io.Writer
	pool *Pool
	sent func(charged, short int) // called with the sizes written or dropped, see session.sent

	mu      sync.Mutex
	stage   *buffer.Block   // collects short replies
	queue   []*buffer.Block // is sent before the stage
	spare   []*buffer.Block // the queue's other backing array
	size    int             // bytes in queue and stage
	writing bool
	ended   sync.Cond // writing has ended
	err     error
}

// errOutputClosed is returned for replies after the end of the session.
var errOutputClosed = errors.New("sftp server: the session is over")

// shortReply is the longest reply for the stage; longer ones come in their own buffer.
const shortReply = 1 << 10

// put queues a short reply, which it copies. It does not write.
func (o *output) put(reply []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	if o.stage != nil && o.stage.End+len(reply) > len(o.stage.Bytes()) {
		o.queue = append(o.queue, o.stage)
		o.stage = nil
	}
	if o.stage == nil {
		o.stage = o.pool.lease(smallBuffer)
		o.stage.Charge = 0
	}
	o.stage.End += copy(o.stage.Bytes()[o.stage.End:], reply)
	o.size += len(reply)
}

// long reports whether so much is queued that adding more would not make the write cheaper.
func (o *output) long() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.size >= smallBuffer/2
}

// send queues a reply in a buffer, which it takes over. It does not write.
func (o *output) send(b *buffer.Block) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		o.drop(b)
		return
	}
	o.queue = append(o.queue, b)
	o.size += b.End - b.Start
}

// flush writes everything queued, or leaves it to the goroutine that is writing. An error is final.
func (o *output) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.writing && o.err == nil && (len(o.queue) > 0 || o.stage != nil) {
		batch := o.takeAll()
		o.mu.Unlock()
		err := o.write(batch)
		clear(batch)
		o.mu.Lock()
		o.wrote(batch, err)
	}
	return o.err
}

// sendRelayed writes the queue, then a header and the n bytes in the relay.
func (o *output) sendRelayed(header []byte, y *relay, n int) error {
	o.mu.Lock()
	for o.writing {
		o.ended.Wait()
	}
	if o.err != nil {
		o.mu.Unlock()
		return o.err
	}
	batch := o.takeAll()
	o.mu.Unlock()
	err := o.write(batch)
	clear(batch)
	if err == nil {
		_, err = o.w.Write(header)
	}
	if err == nil {
		err = y.send(n)
	}
	o.mu.Lock()
	o.wrote(batch, err)
	o.mu.Unlock()
	return err
}

// takeAll takes the queue for writing. The caller holds the lock.
func (o *output) takeAll() (batch []*buffer.Block) {
	batch = o.queue
	if o.stage != nil {
		batch = append(batch, o.stage)
		o.stage = nil
	}
	o.queue, o.spare = o.spare[:0], nil
	o.size = 0
	o.writing = true
	return batch
}

// wrote ends a write that takeAll began.
func (o *output) wrote(batch []*buffer.Block, err error) {
	o.spare = batch
	o.writing = false
	o.ended.Broadcast()
	if err != nil && o.err == nil {
		o.fail(err)
	}
}

// drain flushes, and also waits for a goroutine that is writing.
func (o *output) drain() error {
	o.flush()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.ended.Wait()
	}
	return o.err
}

func (o *output) write(batch []*buffer.Block) (err error) {
	for _, b := range batch {
		if err == nil {
			_, err = o.w.Write(b.Bytes()[b.Start:b.End])
		}
		o.drop(b)
	}
	return err
}

// drop releases a buffer and returns its charge.
func (o *output) drop(b *buffer.Block) {
	charge, short := b.Charge, 0
	if charge == 0 {
		short = b.End - b.Start
	}
	b.Release()
	o.sent(charge, short)
}

// fail ends the output: everything queued now or later is dropped.
func (o *output) fail(err error) {
	o.err = err
	if o.stage != nil {
		o.drop(o.stage)
		o.stage = nil
	}
	for _, b := range o.queue {
		o.drop(b)
	}
	clear(o.queue)
	o.queue = o.queue[:0]
	o.size = 0
}

// close ends the output, even while a goroutine is writing; a Write in progress finishes.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.fail(errOutputClosed)
	}
}
