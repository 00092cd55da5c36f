package sftptest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/usftp/usftp/wire"
)

// Raw is a client that sends and receives bare packets, for tests of servers.
type Raw struct {
	stream io.ReadWriteCloser
	in     *bufio.Reader
	lastID uint32
}

// NewRaw returns a client over a stream.
func NewRaw(stream io.ReadWriteCloser) *Raw {
	return &Raw{stream: stream, in: bufio.NewReader(stream)}
}

// Reply is a packet from the server.
type Reply struct {
	Type wire.Type
	ID   uint32
	Body []byte // the bytes after the id, or in VERSION after the type
}

// Code returns the code of a STATUS, or false for any other packet.
func (r Reply) Code() (wire.Code, bool) {
	var m wire.Status
	if r.Type != wire.TypeStatus || m.Parse(r.Body) != nil {
		return 0, false
	}
	return m.Code, true
}

// String describes the reply in a few words.
func (r Reply) String() string {
	if code, ok := r.Code(); ok {
		return fmt.Sprintf("STATUS id=%d %v", r.ID, code)
	}
	return fmt.Sprintf("%v id=%d, %d bytes", r.Type, r.ID, len(r.Body))
}

// Send sends packets in one Write.
func (c *Raw) Send(packets ...[]byte) error {
	var all []byte
	for _, p := range packets {
		all = append(all, p...)
	}
	_, err := c.stream.Write(all)
	return err
}

// Receive reads one packet of at most 64 MiB. The error is io.EOF at the end of the stream between
// packets, and io.ErrUnexpectedEOF within one.
func (c *Raw) Receive() (Reply, error) {
	var length [wire.LengthSize]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return Reply{}, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxPacket {
		return Reply{}, fmt.Errorf("sftptest: packet of %d bytes", n)
	}
	packet := make([]byte, n)
	if _, err := io.ReadFull(c.in, packet); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Reply{}, err
	}
	t, id, body, err := wire.ParseHeader(packet)
	return Reply{t, id, body}, err
}

// Init sends INIT and reads VERSION.
func (c *Raw) Init() (wire.InitReply, error) {
	var m wire.InitReply
	if err := c.Send(wire.Init{Version: wire.Version}.Append(nil)); err != nil {
		return m, err
	}
	r, err := c.Receive()
	if err != nil {
		return m, err
	}
	if r.Type != wire.TypeVersion {
		return m, fmt.Errorf("sftptest: %v instead of VERSION", r)
	}
	return m, m.Parse(r.Body)
}

// request is a message of package wire that is appended with a request id.
type request interface {
	Append(b []byte, id uint32) []byte
}

// Ask sends a request of package wire, such as [wire.Open], with a new id and reads one packet,
// which must have the same id.
func (c *Raw) Ask(m request) (Reply, error) {
	c.lastID++
	id := c.lastID
	if err := c.Send(m.Append(nil, id)); err != nil {
		return Reply{}, err
	}
	r, err := c.Receive()
	if err == nil && r.ID != id {
		err = fmt.Errorf("sftptest: %v answers id=%d", r, id)
	}
	return r, err
}

// Close closes the stream.
func (c *Raw) Close() error { return c.stream.Close() }
