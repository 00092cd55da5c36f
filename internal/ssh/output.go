package ssh

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// outPacket is a packet that is staged but not yet sealed.
type outPacket struct {
	at, size int
	seq      uint32
	n        uint64
	sealer   sealer
}

// batch is the data of one write system call.
type batch struct {
	block   *block // holds mem; nil while mem is small
	small   []byte
	mem     []byte
	packets []outPacket
	size    int // bytes in mem
}

const (
	// maxBatchSize is the size of a batch up to which messages are added to it. The rest of the
	// block has room for the header, the padding and the tag of the last one.
	maxBatchSize = blockSize - 1024

	// maxStaged is the size at which writers of data wait: beyond it there is room for one packet
	// of data, and for messages that cannot wait.
	maxStaged = maxBatchSize - maxHeld - maxData

	// maxHeld limits messages that cannot wait but must: answers that a peer demands while it reads
	// nothing, or while keys are exchanged (CVE-2025-22869 was such a queue without a limit).
	maxHeld = 16 << 10

	// atOnce is the size up to which a writer makes the system call itself instead of waking
	// another goroutine: somebody usually waits for the answer to so little.
	atOnce = 16 << 10

	// dataHeader is the size of CHANNEL_DATA's header, in front of the data.
	dataHeader = 1 + 4 + 4
)

// output stages packets and writes them. Packets staged during a system call go out with the next
// one; small writes to one channel share packets.
//
// Any goroutine stages, holding mu. One at a time seals and writes what is staged (writeOnce),
// without mu: before the login the one that has staged it, later the flusher, or a goroutine that
// sends little data.
type output struct {
	conn    net.Conn
	buffers *Buffers
	crew    *crew
	sealing *batch // being sealed by the crew

	mu     sync.Mutex
	change sync.Cond // room, window, keys, an error
	stage  *batch
	spare  *batch     // nil while it is written
	open   openPacket // the last packet, while data may be added to it
	sealer sealer
	form   form
	seq    uint32
	n      uint64 // packets under this key
	bytes  int64  // under this key

	deflater *deflater // nil without compression

	// While keys are exchanged (from our KEXINIT to our NEWKEYS) only the exchange may send: RFC
	// 4253, section 7.1. Data waits; messages that cannot wait are held.
	kexing  bool
	sent    []byte // our KEXINIT, until the peer's NEWKEYS
	held    []byte // messages, each after its length
	propose func() []byte
	limits  limits

	flusher bool // the flusher goroutine runs: after the login
	writing bool
	// closing is set by close. Nothing new is staged from then on: the flusher ends once the rest
	// is written, so nobody would write it, and close would wait for that.
	closing  bool
	closeErr error // why close was called
	err      error
	work     sync.Cond // wakes the flusher
	fail     func(error)
}

// openPacket is a data packet that is still growing, in stage.
type openPacket struct {
	begin    int // of the packet
	data     int // where its data begins; 0 if no packet is open
	max      int // bytes of data
	channel  uint32
	extended bool
}

func newOutput(conn net.Conn, buffers *Buffers, ended <-chan struct{}) *output {
	o := &output{conn: conn, buffers: buffers, stage: &batch{}, spare: &batch{}}
	o.change.L, o.work.L = &o.mu, &o.mu
	o.setSealer(plain{})
	o.crew = newCrew(ended, o.sealOne)
	return o
}

// setSealer applies to all packets staged from now on.
func (o *output) setSealer(s sealer) { o.sealer, o.form, o.n, o.bytes = s, s.form(), 0, 0 }

// grow makes room for n more bytes, in a block if there is a pool of them.
func (b *batch) grow(n int, buffers *Buffers) []byte {
	if b.size+n > len(b.mem) {
		var mem []byte
		if b.size+n > idleSize && b.size+n <= blockSize && buffers != nil && b.block == nil {
			b.block = buffers.get(nil)
			mem = b.block.mem[:]
		} else {
			mem = make([]byte, max(b.size+n, min(idleSize, 2*len(b.mem)+1024)))
			b.small = mem
		}
		copy(mem, b.mem[:b.size])
		b.mem = mem
	}
	return b.mem[b.size:]
}

func (b *batch) reset() {
	clear(b.packets)
	b.packets, b.size = b.packets[:0], 0
	if b.block != nil {
		b.block.release()
		b.block = nil
	}
	if len(b.small) > idleSize { // a long message before the login
		b.small = nil
	}
	b.mem = b.small
}

func (o *output) full() bool { return o.stage.size > maxStaged }

// maxTail is the longest padding: RFC 4253, section 6.
const maxTail = 255

// begin starts a packet with a payload of at most most bytes, and returns memory for it.
func (o *output) begin(most int) []byte {
	o.finish()
	buffers := o.buffers
	if !o.flusher {
		buffers = nil // a little memory must do
	}
	p := o.stage.grow(headerSize+most+maxTail+o.form.tag, buffers)
	return p[headerSize:]
}

// end completes the packet at at, whose payload is where begin put it.
func (o *output) end(at, payload int) {
	b, f := o.stage, o.form
	if o.deflater != nil {
		from := b.mem[at+headerSize : at+headerSize+payload]
		packed := o.deflater.deflate(from)
		payload, b.size = len(packed), at
		b.grow(headerSize+payload+maxTail+f.tag, o.buffers) // it may have grown
		copy(b.mem[at+headerSize:], packed)
	}
	pad := f.padding(payload)
	size := headerSize + payload + pad + f.tag
	p := b.mem[at : at+size]
	binary.BigEndian.PutUint32(p, uint32(1+payload+pad))
	p[lengthSize] = byte(pad)
	// Padding is zeros: no cipher here needs random padding, and it must not reveal the memory's
	// former contents.
	clear(p[headerSize+payload : headerSize+payload+pad])
	b.packets = append(b.packets, outPacket{at: at, size: size, seq: o.seq, n: o.n,
		sealer: o.sealer})
	b.size = at + size
	o.seq++
	o.n++
	o.bytes += int64(size)
}

// finish completes the open data packet, if there is one.
func (o *output) finish() {
	k := o.open
	if k.data == 0 {
		return
	}
	o.open = openPacket{}
	b := o.stage
	binary.BigEndian.PutUint32(b.mem[k.data-lengthSize:], uint32(b.size-k.data))
	o.end(k.begin, b.size-k.begin-headerSize)
	if o.limits.reached(o.bytes, o.n) {
		o.startKex()
	}
}

// put stages a message.
func (o *output) put(message []byte) {
	copy(o.begin(len(message)), message)
	o.end(o.stage.size, len(message))
}

// startKex stages our KEXINIT unless an exchange is in progress. The caller holds mu.
func (o *output) startKex() {
	if o.kexing || o.closing || o.sent != nil || o.propose == nil {
		return
	}
	o.sent = o.propose()
	o.kexing = true
	o.put(o.sent)
}

// control sends a message that cannot wait, such as the reading goroutine's. It fails if too many
// are held already.
func (o *output) control(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.controlLocked(message)
}

// controlLocked implements control. The caller holds mu. A connection that is being closed answers
// nothing more; its reader must go on, so that staged data can still be sent.
func (o *output) controlLocked(message []byte) error {
	if o.err != nil || o.closing {
		return o.err
	}
	o.finish() // may start an exchange
	// Messages after a held one must be held as well: answers come in the order of requests.
	if o.kexing || len(o.held) > 0 || o.stage.size+len(message) > maxBatchSize {
		if len(o.held)+lengthSize+len(message) > maxHeld {
			return &ProtocolError{"the peer sends requests but does not read the replies"}
		}
		o.held = appendString(o.held, message)
	} else {
		o.put(message)
	}
	return o.flushLocked()
}

// urgent sends a message of the key exchange, or one that ends the connection.
func (o *output) urgent(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.closing {
		return o.err
	}
	o.put(message)
	return o.flushLocked()
}

// stageOnly stages a message that is sent with the next one.
func (o *output) stageOnly(message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && !o.closing {
		o.put(message)
	}
	return o.err
}

// message sends a caller's message. It waits until the message may be sent, or ctx ends.
func (o *output) message(ctx context.Context, message []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.awaitTurn(ctx, message, nil); err != nil {
		return err
	}
	o.put(message)
	return o.flushLocked()
}

// errTooLong reports a message that no peer would accept.
var errTooLong = errors.New("ssh: the message is longer than 256 KiB")

// awaitTurn waits until a message may be staged, which will be packet o.seq. It gives up when ctx
// ends, or when refused, which may be nil, says why it must not be sent. The caller holds mu.
func (o *output) awaitTurn(ctx context.Context, message []byte, refused func() error) error {
	if len(message) > maxPacketLength {
		return errTooLong
	}
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		o.change.Broadcast()
		o.mu.Unlock()
	})()
	ready := func() (bool, error) {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if refused != nil {
			return true, refused()
		}
		return true, nil
	}
	for {
		if err := o.waitToSend(ready); err != nil {
			return err
		}
		if o.finish(); !o.kexing { // finish may begin an exchange
			return nil
		}
	}
}

// waitToSend waits until there is room, no keys are being exchanged, and ready agrees. An error
// from ready ends the wait at once: closing a channel must not wait for a peer that reads nothing.
func (o *output) waitToSend(ready func() (bool, error)) error {
	for o.err == nil && !o.closing {
		ok, err := ready()
		if err != nil {
			return err
		}
		if ok && !o.kexing && !o.full() && len(o.held) == 0 {
			return nil
		}
		if err := o.flushLocked(); err != nil {
			return err
		}
		if !o.flusher {
			return errDuringKex
		}
		o.change.Wait()
	}
	if o.err != nil {
		return o.err
	}
	return ErrClosed
}

// newKeys stages NEWKEYS and the messages in follow, and seals with the new keys from then on.
func (o *output) newKeys(s sealer, d *deflater, strict bool, follow [][]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.closing {
		return o.err
	}
	o.put([]byte{msgNewKeys})
	o.setSealer(s)
	o.deflater = d
	if strict {
		o.seq = 0 // PROTOCOL, section 1.10
	}
	for _, message := range follow {
		o.put(message)
	}
	o.kexing = false
	o.releaseHeld()
	o.change.Broadcast()
	return o.flushLocked()
}

// releaseHeld stages held messages for which there is room.
func (o *output) releaseHeld() {
	for len(o.held) > 0 && !o.kexing {
		n := binary.BigEndian.Uint32(o.held)
		if o.stage.size+int(n) > maxBatchSize {
			return
		}
		o.put(o.held[lengthSize : lengthSize+n])
		o.held = o.held[lengthSize+n:]
	}
	if len(o.held) == 0 {
		o.held = nil
	}
}

// flushLocked makes sure that everything staged is written: by the flusher or, before the login,
// here. The caller holds mu.
func (o *output) flushLocked() error {
	switch {
	case o.stage.size == 0 || o.writing: // the writer will write the rest
	case o.flusher:
		o.work.Signal() // the reading goroutine must not wait for the peer to read
	default:
		for o.stage.size > 0 && o.err == nil {
			o.writeOnce()
		}
	}
	return o.err
}

// writeOnce seals and writes the staged data. The caller holds mu, which is released meanwhile;
// nothing else writes.
func (o *output) writeOnce() {
	o.finish()
	o.writing = true
	b := o.stage
	o.stage, o.spare = o.spare, nil
	o.change.Broadcast()
	o.mu.Unlock()

	o.sealing = b
	if n := len(b.packets); n > 0 {
		// Packets under two keys surround a NEWKEYS, which is rare.
		o.crew.run(n, b.size, b.packets[0].sealer.form().parallel &&
			b.packets[0].sealer == b.packets[n-1].sealer)
	}
	n, err := o.conn.Write(b.mem[:b.size])
	if err == nil && n != b.size {
		err = io.ErrShortWrite
	}
	b.reset()

	o.mu.Lock()
	o.spare = b
	o.writing = false
	if err != nil && o.err == nil {
		o.err = err
		if o.fail != nil {
			go o.fail(err)
		}
	}
	o.releaseHeld()
	o.change.Broadcast()
}

func (o *output) sealOne(s *scratch, i int) {
	b := o.sealing
	p := &b.packets[i]
	p.sealer.seal(s, p.seq, p.n, b.mem[p.at:p.at+p.size])
}

// flush, the flusher goroutine, writes all staged data until the connection ends.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil {
		switch {
		case o.writing && o.closing:
			o.change.Wait()
		case o.stage.size > 0 && !o.writing:
			o.writeOnce()
		case o.closing:
			return
		default:
			o.work.Wait()
		}
	}
}

// data sends parts as one stream of channel data, in packets as large as the peer accepts, with one
// copy from the caller's memory. It returns when everything has been staged.
func (o *output) data(c *Channel, extended bool, parts [][]byte) (done int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range parts {
		for len(p) > 0 {
			err := o.waitToSend(func() (bool, error) { return c.peerWindow > 0, c.cannotSend() })
			if err != nil {
				return done, err
			}
			n := o.add(c, extended, p)
			p = p[n:]
			done += int64(n)
		}
	}
	// Write a small message here: somebody waits for the answer.
	if n := o.stage.size; 0 < n && n <= atOnce && o.flusher && !o.writing && o.err == nil {
		o.writeOnce()
	}
	return done, o.flushLocked()
}

// add stages as much of p as fits in one packet, the open one if any.
func (o *output) add(c *Channel, extended bool, p []byte) int {
	k := &o.open
	if k.data > 0 && (k.channel != c.peer || k.extended != extended ||
		o.stage.size-k.data >= k.max) {
		o.finish()
		if o.kexing {
			return 0
		}
	}
	if k.data == 0 {
		o.openData(c, extended)
	}
	n := min(len(p), k.max-(o.stage.size-k.data))
	n = int(min(int64(n), c.peerWindow))
	copy(o.stage.mem[o.stage.size:], p[:n])
	o.stage.size += n
	c.peerWindow -= int64(n)
	return n
}

// openData opens a packet of data: RFC 4254, section 5.2. finish fills in the data's length.
func (o *output) openData(c *Channel, extended bool) {
	at, header := o.stage.size, dataHeader
	if extended {
		header += 4
	}
	most := min(c.peerMax, maxData)
	m := o.begin(header + most)
	m[0] = msgChannelData
	binary.BigEndian.PutUint32(m[1:], c.peer)
	if extended {
		m[0] = msgChannelExtendedData
		binary.BigEndian.PutUint32(m[5:], 1) // standard error
	}
	data := at + headerSize + header
	o.open = openPacket{begin: at, data: data, max: most, channel: c.peer, extended: extended}
	o.stage.size = data
}

// maxData limits the data in a packet even if the peer accepts more, so that several packets can be
// sealed at once.
const maxData = 32 << 10

// closeTimeout limits how long sending the rest may take at the end.
const closeTimeout = time.Second

// close sends the staged data, if the peer takes it soon, and ends the output.
func (o *output) close(last []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return
	}
	if last != nil && o.err == nil && o.stage.size+len(last) <= maxBatchSize {
		o.put(last)
	}
	o.closing, o.closeErr = true, err
	o.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	o.flushLocked()
	o.work.Broadcast()
	o.change.Broadcast()
	timer := time.AfterFunc(closeTimeout, func() {
		o.abort(err)
		o.conn.Close()
	})
	defer timer.Stop()
	for o.err == nil && (o.stage.size > 0 || o.writing) {
		o.change.Wait()
	}
	o.stop(err)
}

// abort ends the output at once: the connection is about to be closed.
func (o *output) abort(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stop(err)
}

// stop ends the flusher, and all waits. The caller holds mu.
func (o *output) stop(err error) {
	if o.err == nil {
		o.err = err
	}
	o.closing = true
	o.work.Broadcast()
	o.change.Broadcast()
}

var errDuringKex = &ProtocolError{"a message during a key exchange"}

// limits determine when keys are exchanged.
type limits struct {
	bytes   int64
	packets uint64
}

func (l *limits) reached(bytes int64, packets uint64) bool {
	return l.bytes > 0 && (bytes >= l.bytes || packets >= l.packets)
}
