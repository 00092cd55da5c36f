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

// inPacket is a complete packet.
type inPacket struct {
	at, size int
	seq      uint32
	n        uint64
	payload  []byte
	err      error
}

// input reads packets. It belongs to one goroutine, and opens packets in place: a payload is valid
// until the next one is read.
type input struct {
	source  io.Reader
	buffers *Buffers
	crew    *crew

	block      *block // holds mem; nil while mem is small
	mem        []byte
	start, end int // the part of mem that has been read but not used
	shortReads int // consecutive reads that returned little
	need       int // length of the packet that has begun, 0 if unknown

	opener   opener
	form     form
	inflater *inflater // nil without compression
	seq      uint32
	n        uint64 // packets under this key
	bytes    int64  // under this key
	limit    int    // on a packet

	batch   bool // several packets may be opened at once
	queue   []inPacket
	next    int
	kept    atomic.Int32 // blocks in use, including ours
	maxKept atomic.Int32 // grows with the windows
	err     error
	packets int64 // since the connection began
	total   int64 // bytes read from the source
	heard   func(n int)
	idle    func() // called before waiting for more
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
	if p.err != nil {
		in.err = p.err
		in.queue = in.queue[:in.next]
		return nil, p.err
	}
	in.packets++
	if in.inflater == nil {
		return p.payload, nil
	}
	p.payload, in.err = in.inflater.inflate(p.payload)
	return p.payload, in.err
}

// seqOfLast returns the sequence number of the packet that read returned last.
func (in *input) seqOfLast() uint32 { return in.queue[in.next-1].seq }

// frame waits for a packet, and opens it and the packets that came with it.
func (in *input) frame() error {
	size := 0
	for {
		p := in.mem[in.start:in.end]
		more := size == 0 || in.batch && in.form.parallel && len(in.queue) < maxBatch
		if in.need == 0 && len(p) >= in.form.head {
			if !more {
				break
			}
			need, err := in.opener.size(in.seq, p)
			if err == nil && need > in.limit+lengthSize+in.form.tag {
				err = errPacket
			}
			if err != nil {
				in.err = err
				break
			}
			in.need = need
		}
		if in.need > 0 && len(p) >= in.need && more {
			in.queue = append(in.queue, inPacket{at: in.start, size: in.need, seq: in.seq, n: in.n})
			size += in.need
			in.start += in.need
			in.bytes += int64(in.need)
			in.need = 0
			in.seq++
			in.n++
			continue
		}
		if size > 0 {
			break
		}
		if in.idle != nil {
			in.idle()
		}
		if err := in.fill(); err != nil {
			return err
		}
	}
	if len(in.queue) == 0 {
		return in.err
	}
	in.crew.run(len(in.queue), size, in.form.parallel)
	return nil
}

func (in *input) openOne(s *scratch, i int) {
	p := &in.queue[i]
	var clear []byte
	if clear, p.err = in.opener.open(s, p.seq, p.n, in.mem[p.at:p.at+p.size]); p.err == nil {
		p.payload, p.err = payload(clear)
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

func (in *input) makeRoom() {
	need := max(in.need, in.form.head)
	have := in.end - in.start
	switch {
	case in.block != nil && have == 0 && in.shortReads >= maxShortReads && need <= idleSize:
		in.block.release()
		in.block, in.shortReads = nil, 0
		in.mem, in.start, in.end = make([]byte, idleSize), 0, 0
	case in.block != nil:
		if in.block.holds.Load() == 1 {
			// Everything before start has been used. A whole packet is never moved.
			if have == 0 {
				in.start, in.end = 0, 0
			} else if in.start > 0 && len(in.mem)-in.start < max(need, blockSize/8) {
				in.end = copy(in.mem, in.mem[in.start:in.end])
				in.start = 0
			}
			return
		}
		if len(in.mem)-in.start < need || len(in.mem)-in.end < blockSize/8 {
			in.move(in.buffers.get(&in.kept))
		}
	case in.batch && (need > len(in.mem) || in.end == len(in.mem)):
		in.move(in.buffers.get(&in.kept))
	case need > len(in.mem):
		mem := make([]byte, min(need+idleSize, maxFirstPacket+idleSize)) // before the login
		if need > len(mem) {
			mem = make([]byte, need)
		}
		in.end = copy(mem, in.mem[in.start:in.end])
		in.mem, in.start = mem, 0
	case have == 0:
		in.start, in.end = 0, 0
		if in.batch && len(in.mem) > idleSize {
			in.mem = make([]byte, idleSize)
		}
	case len(in.mem)-in.start < need || in.end == len(in.mem):
		in.end = copy(in.mem, in.mem[in.start:in.end])
		in.start = 0
	}
}

func (in *input) move(b *block) {
	end := copy(b.mem[:], in.mem[in.start:in.end])
	if in.block != nil {
		in.block.release()
	}
	in.block, in.mem, in.start, in.end = b, b.mem[:], 0, end
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
func (in *input) close() {
	if in.block != nil {
		in.block.release()
		in.block, in.mem = nil, nil
	}
	in.start, in.end = 0, 0
}
