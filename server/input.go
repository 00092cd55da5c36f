package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/usftp/usftp/wire"
)

// inputSize is what a session reads requests into: hundreds of short ones at once, and little enough for an idle session.
const inputSize = 16 << 10

var (
	errPacketLength = errors.New("sftp server: the client sent a packet of an impossible length")
	errCutPacket    = errors.New("sftp server: the stream ended inside a packet")
)

// input cuts a stream into packets. Short packets are parsed where they were read; a long one is read straight into a
// buffer of its own, so that the data of a WRITE is not copied again.
type input struct {
	r          io.Reader
	buf        []byte
	start, end int // what of buf has been read and not been taken

	// lease gets the buffer for a long packet and waits for it; nil means that the session is over.
	lease func(n int) *buffer
}

// ready tells whether a whole packet is at hand, so that taking it does not wait.
func (in *input) ready() bool {
	have := in.buf[in.start:in.end]
	if len(have) < wire.LengthSize {
		return false
	}
	return uint64(len(have)) >= wire.LengthSize+uint64(binary.BigEndian.Uint32(have))
}

// next takes the next packet, without its length field. A long packet comes with the buffer it lies in, which the caller
// must release; a short one stays valid until the next call. The error is io.EOF where the stream ended between packets.
func (in *input) next() (packet []byte, own *buffer, err error) {
	if err := in.fill(wire.LengthSize); err != nil {
		return nil, nil, err
	}
	length := binary.BigEndian.Uint32(in.buf[in.start:])
	if length == 0 || length > wire.MaxPacket {
		return nil, nil, fmt.Errorf("%w: %d bytes", errPacketLength, length)
	}
	need := wire.LengthSize + int(length)
	if need > len(in.buf) {
		return in.long(need)
	}
	if err := in.fill(need); err != nil {
		return nil, nil, err
	}
	packet = in.buf[in.start+wire.LengthSize : in.start+need]
	in.start += need
	return packet, nil, nil
}

// fill reads until n bytes are at hand.
func (in *input) fill(n int) error {
	if in.end-in.start >= n {
		return nil
	}
	if in.start+n > len(in.buf) || in.start == in.end {
		in.end = copy(in.buf, in.buf[in.start:in.end])
		in.start = 0
	}
	got, err := io.ReadAtLeast(in.r, in.buf[in.end:], n-(in.end-in.start))
	in.end += got
	return in.readError(err, in.end-in.start)
}

func (in *input) readError(err error, have int) error {
	if (err == io.EOF || err == io.ErrUnexpectedEOF) && have > 0 {
		return errCutPacket
	}
	return err
}

// long reads a packet that does not fit into buf.
func (in *input) long(need int) (packet []byte, own *buffer, err error) {
	own = in.lease(need + lookahead)
	if own == nil {
		return nil, nil, io.ErrClosedPipe
	}
	have := copy(own.data, in.buf[in.start:in.end])
	in.start, in.end = 0, 0
	if have < need {
		got, err := io.ReadAtLeast(in.r, own.data[have:need+lookahead], need-have)
		have += got
		if err != nil {
			own.end = 0
			return nil, own, in.readError(err, have)
		}
	}
	in.end = copy(in.buf, own.data[need:have])
	return own.data[wire.LengthSize:need], own, nil
}

// successor returns an input that carries on behind what this one has taken. This one's packets stay valid.
func (in *input) successor() *input {
	next := &input{r: in.r, buf: make([]byte, len(in.buf)), lease: in.lease}
	next.end = copy(next.buf, in.buf[in.start:in.end])
	return next
}
