package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

const (
	// inputSize is the size of a session's read buffer: enough for hundreds of short requests, and
	// small enough for an idle session.
	inputSize = 16 << 10

	// mediumPacket is the longest packet read together with others, into a large buffer. Clients
	// that do not know limits@openssh.com send such writes by the dozen.
	mediumPacket = 64 << 10
)

var (
	errPacketLength = errors.New("sftp server: the client sent an invalid packet length")
	errCutPacket    = errors.New("sftp server: the stream ended inside a packet")
)

// input splits a stream into packets. Packets are parsed where they were read; a long one is read
// straight into a buffer of its own. Either way the data of a WRITE is not copied.
type input struct {
	r          io.Reader
	pool       *Pool
	buf        []byte
	start, end int // the part of buf that has been read and not taken

	// While many packets arrive, buf is this large buffer; it is released at the first short read.
	large *buffer.Block
	small []byte // buf, while large is in use
	last  int    // length of the last read

	// lease waits for a buffer for a long packet; nil means that the session is over.
	lease func(n int) *buffer.Block
}

// ready reports whether a whole packet is buffered, so that next does not block.
func (in *input) ready() bool {
	have := in.buf[in.start:in.end]
	if len(have) < wire.LengthSize {
		return false
	}
	return uint64(len(have)) >= wire.LengthSize+uint64(binary.BigEndian.Uint32(have))
}

// next returns the next packet, without its length field. A long packet comes with its own buffer,
// which the caller must release, even after an error; any other stays valid until the next call.
// The error is io.EOF if the stream ended between two packets.
func (in *input) next() (packet []byte, own *buffer.Block, err error) {
	if in.large != nil && in.start == in.end && in.last < inputSize {
		in.drop()
	}
	if err := in.fill(wire.LengthSize); err != nil {
		return nil, nil, err
	}
	length := binary.BigEndian.Uint32(in.buf[in.start:])
	if length == 0 || length > wire.MaxPacket {
		return nil, nil, fmt.Errorf("%w: %d bytes", errPacketLength, length)
	}
	need := wire.LengthSize + int(length)
	switch {
	case need > mediumPacket && need > in.end-in.start:
		return in.long(need)
	case need > len(in.buf):
		in.grow()
	}
	if err := in.fill(need); err != nil {
		return nil, nil, err
	}
	packet = in.buf[in.start+wire.LengthSize : in.start+need]
	in.start += need
	return packet, nil, nil
}

// grow switches to a large buf.
func (in *input) grow() {
	in.large, in.small = in.pool.lease(largeBuffer), in.buf
	in.end = copy(in.large.Bytes(), in.buf[in.start:in.end])
	in.start = 0
	in.buf = in.large.Bytes()
}

// drop releases the large buffer and its contents.
func (in *input) drop() {
	if in.large != nil {
		in.large.Release()
		in.buf, in.large = in.small, nil
		in.start, in.end = 0, 0
	}
}

// fill reads until n bytes are buffered.
func (in *input) fill(n int) error {
	if in.end-in.start >= n {
		return nil
	}
	if in.start+n > len(in.buf) || in.start == in.end {
		in.end = copy(in.buf, in.buf[in.start:in.end])
		in.start = 0
	}
	got, err := io.ReadAtLeast(in.r, in.buf[in.end:], n-(in.end-in.start))
	in.last = got
	in.end += got
	return readError(err, in.end-in.start)
}

// readError returns the error for a stream that ends after the first have bytes of a packet.
func readError(err error, have int) error {
	if (err == io.EOF || err == io.ErrUnexpectedEOF) && have > 0 {
		return errCutPacket
	}
	return err
}

// long reads a packet into a buffer of its own.
func (in *input) long(need int) (packet []byte, own *buffer.Block, err error) {
	own = in.lease(need + lookahead)
	if own == nil {
		return nil, nil, io.ErrClosedPipe
	}
	have := copy(own.Bytes(), in.buf[in.start:in.end])
	in.start, in.end = 0, 0
	got, err := io.ReadAtLeast(in.r, own.Bytes()[have:need+lookahead], need-have)
	if have += got; err != nil {
		return nil, own, readError(err, have)
	}
	in.end = copy(in.buf, own.Bytes()[need:have])
	return own.Bytes()[wire.LengthSize:need], own, nil
}

// successor returns an input that continues after the last packet taken from this one, whose
// packets stay valid until drop.
func (in *input) successor() *input {
	next := &input{r: in.r, pool: in.pool, buf: make([]byte, inputSize), lease: in.lease,
		last: in.last}
	if in.end-in.start > len(next.buf) {
		next.grow()
	}
	next.end = copy(next.buf, in.buf[in.start:in.end])
	return next
}
