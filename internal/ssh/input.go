package ssh

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
)

const (
	// maxPacketLength limits a packet's length field after the login: OpenSSH's PACKET_MAX_SIZE.
	maxPacketLength = 256 << 10

	// maxFirstPacket is the limit before the login: RFC 4253, section 6.1.
	maxFirstPacket = 35000

	// idleSize is the size of a connection's read buffer while little arrives.
	idleSize = 4 << 10

	// keptBlocks is how many blocks channels may hold, in addition to twice the size of their
	// windows, before they must copy instead. That limits the memory that a peer can tie up with
	// nearly empty packets.
	keptBlocks = 4
)

// maxBatch is how many packets are opened at once. A full read of data is nine, but could be
// thousands of empty ones.
const maxBatch = 512

// inPacket is a packet that has arrived.
type inPacket struct {
	seq  uint32
	n    uint64
	data []byte // all of it in mem; once it has been opened, its payload
	err  error  // why it did not open
}

// input reads packets, and opens them in place: a payload is valid until the next one is read. It
// belongs to one goroutine, which is the caller of read.
//
// Bytes go from source to mem (fill). The packets that are whole there are queued (take) and opened
// together by the crew (frame); read returns one after the other. Once all have been returned,
// their memory may be overwritten (makeRoom), except that channels keep blocks with data that
// nobody has read yet (lend).
type input struct {
	source  io.Reader
	buffers *Buffers
	crew    *crew
	heard   func(n int) // called for what arrives
	idle    func()      // called before waiting for more

	// Until a packet needs more, mem is small. Then it is a block, until reads have returned little
	// for a while.
	mem        []byte
	block      *block       // that mem is; or nil
	start, end int          // the part of mem that has been read but not queued
	shortReads int          // consecutive reads that returned little to a block
	kept       atomic.Int32 // blocks in use, including ours
	maxKept    atomic.Int32 // grows with the windows

	// batch is set after the login, except while keys are exchanged, when the packets that arrive
	// together may be under two keys. Without it packets are queued one by one, and mem does not
	// become a block.
	batch bool
	need  int // length of the packet at start, or 0 while it is unknown
	limit int // on a packet
	queue []inPacket
	next  int   // the one that read returns next
	err   error // what ends the input once the queue is empty

	opener   opener
	form     form
	inflater *inflater // nil without compression
	seq      uint32    // of the packet at start
	n        uint64    // packets under this key
	bytes    int64     // under this key
	packets  int64     // since the connection began
	total    int64     // bytes read from the source
}

func newInput(source io.Reader, buffers *Buffers, ended <-chan struct{}) *input {
	in := &input{source: source, buffers: buffers, limit: maxFirstPacket}
	in.maxKept.Store(keptBlocks)
	in.setOpener(plain{})
	in.crew = newCrew(ended, in.openOne)
	return in
}

func (in *input) setOpener(o opener) {
	in.opener, in.form, in.n, in.bytes = o, o.form(), 0, 0
}

// ready reports whether any data has arrived that has not been read.
func (in *input) ready() bool { return in.next < len(in.queue) || in.start < in.end }

// read returns the next packet's payload.
func (in *input) read() ([]byte, error) {
	for in.next == len(in.queue) {
		if in.err != nil {
			return nil, in.err
		}
		clear(in.queue) // it must not keep memory that has been replaced
		in.queue, in.next = in.queue[:0], 0
		if err := in.frame(); err != nil {
			return nil, err
		}
	}
	p := &in.queue[in.next]
	in.next++
	if p.err == nil && in.inflater != nil {
		p.data, p.err = in.inflater.inflate(p.data)
	}
	if p.err != nil {
		in.err = p.err
		in.queue = in.queue[:in.next]
		return nil, p.err
	}
	in.packets++
	return p.data, nil
}

// seqOfLast returns the sequence number of the packet that read returned last.
func (in *input) seqOfLast() uint32 { return in.queue[in.next-1].seq }

// frame waits for a packet, and opens it and the packets that came with it.
func (in *input) frame() error {
	for !in.take() {
		if in.err != nil {
			return in.err
		}
		if in.idle != nil {
			in.idle()
		}
		if err := in.fill(); err != nil {
			return err
		}
	}
	first := in.start - len(in.queue[0].data)
	for in.batch && in.form.parallel && len(in.queue) < maxBatch && in.take() {
	}
	in.crew.run(len(in.queue), in.start-first, in.form.parallel)
	return nil
}

// take queues the packet at start, if all of it is there.
func (in *input) take() bool {
	p := in.mem[in.start:in.end]
	if in.need == 0 && len(p) >= in.form.head {
		need, err := in.opener.size(in.seq, p)
		if err == nil && need > in.limit+lengthSize+in.form.tag {
			err = errPacket
		}
		if err != nil {
			in.err = err
			return false
		}
		in.need = need
	}
	if in.need == 0 || len(p) < in.need {
		return false
	}
	in.queue = append(in.queue, inPacket{seq: in.seq, n: in.n, data: p[:in.need]})
	in.start += in.need
	in.bytes += int64(in.need)
	in.need = 0
	in.seq++
	in.n++
	return true
}

func (in *input) openOne(s *scratch, i int) {
	p := &in.queue[i]
	if p.data, p.err = in.opener.open(s, p.seq, p.n, p.data); p.err == nil {
		p.data, p.err = payload(p.data)
	}
}

// fill reads more, into memory that can hold the whole packet that has begun.
func (in *input) fill() error {
	in.makeRoom()
	for range 100 {
		n, err := in.source.Read(in.mem[in.end:])
		if n < 0 || n > len(in.mem)-in.end {
			return errors.New("ssh: the stream's Read returned an impossible count")
		}
		in.end += n
		in.total += int64(n)
		if n > 0 {
			if in.heard != nil {
				in.heard(n)
			}
			if in.block != nil && n < idleSize {
				in.shortReads++
			} else {
				in.shortReads = 0
			}
			return nil // the error will come again
		}
		if err != nil {
			if err == io.EOF && in.end > in.start {
				err = io.ErrUnexpectedEOF
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				in.err = err
			}
			return err
		}
	}
	return io.ErrNoProgress
}

// maxShortReads is how many consecutive reads must return little before the block is given back.
const maxShortReads = 4

// makeRoom makes room in mem for the rest of the packet at start, or for its head, and for what may
// come with it. All packets before it have been used, so what it moves is less than a packet.
func (in *input) makeRoom() {
	need := max(in.need, in.form.head)
	rest := in.end - in.start
	switch {
	case in.block == nil && in.batch && (need > len(in.mem) || in.end == len(in.mem)):
		in.useBlock()
	case in.block == nil && need > len(in.mem):
		in.useMemory(make([]byte, need+idleSize))
	case in.block == nil && in.batch && rest == 0 && len(in.mem) > idleSize: // as before the login
		in.useMemory(make([]byte, idleSize))
	case in.block == nil:
		if rest == 0 || len(in.mem)-in.start < need || in.end == len(in.mem) {
			in.toFront()
		}
	case rest == 0 && in.shortReads >= maxShortReads && need <= idleSize:
		in.useMemory(make([]byte, idleSize))
		in.shortReads = 0
	case in.block.holds.Load() > 1: // channels keep data from it
		if len(in.mem)-in.start < need || len(in.mem)-in.end < blockSize/8 {
			in.useBlock()
		}
	case rest == 0 || len(in.mem)-in.start < max(need, blockSize/8):
		in.toFront()
	}
}

// toFront moves what has been read to the front of mem.
func (in *input) toFront() { in.start, in.end = 0, copy(in.mem, in.mem[in.start:in.end]) }

// useBlock moves what has been read to a new block.
func (in *input) useBlock() {
	b := in.buffers.get(&in.kept)
	in.useMemory(b.mem[:])
	in.block = b
}

// useMemory moves what has been read to other memory, and gives the block back, if there is one.
func (in *input) useMemory(mem []byte) {
	in.start, in.end = 0, copy(mem, in.mem[in.start:in.end])
	if in.block != nil {
		in.block.release()
	}
	in.block, in.mem = nil, mem
}

// lend returns the block that holds the current payload, for a channel to keep a part of it; nil if
// the channel must copy, as it must if the payload was decompressed.
func (in *input) lend() *block {
	if in.block == nil || in.inflater != nil || in.kept.Load() > in.maxKept.Load() {
		return nil
	}
	return in.block
}

// line reads a line of at most most bytes, without its end: version exchange, RFC 4253, section
// 4.2.
func (in *input) line(most int) ([]byte, error) {
	for at := in.start; ; {
		for ; at < in.end; at++ {
			if in.mem[at] == '\n' {
				line := in.mem[in.start:at]
				in.start = at + 1
				if len(line) > 0 && line[len(line)-1] == '\r' {
					line = line[:len(line)-1]
				}
				return line, nil
			}
			if at-in.start >= most {
				return nil, errNotSSH
			}
		}
		offset := at - in.start
		if offset == len(in.mem) {
			in.need = len(in.mem) + 1 // a long line needs more memory
		}
		err := in.fill()
		if in.need = 0; err != nil {
			return nil, err
		}
		at = in.start + offset
	}
}

// close gives the block back. The reading goroutine calls it at its end.
func (in *input) close() { in.useMemory(nil) }
