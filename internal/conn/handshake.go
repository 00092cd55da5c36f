package conn

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/usftp/usftp/wire"
)

// maxVersion bounds the VERSION packet, which holds a few dozen names. The first bytes of a text, read as a length, are far
// above it.
const maxVersion = 64 << 10

// Handshake waits for the server's VERSION (draft-02, section 4), until ctx is done, which ends the connection. An error says
// why there is none: [NotSFTPError] where something else was spoken.
func (c *Conn) Handshake(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.life.Done():
		return c.Err()
	case <-ctx.Done():
		err := context.Cause(ctx)
		c.end(err)
		return err
	}
}

// readVersion reads the first packet, which must be VERSION.
func (c *Conn) readVersion() error {
	head, err := c.in.need(wire.LengthSize + 1 + 4)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return &NotSFTPError{Text: text(head)}
	}
	if err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head)
	if wire.Type(head[wire.LengthSize]) != wire.TypeVersion || length < 5 || length > maxVersion {
		return &NotSFTPError{Text: c.firstWords()}
	}
	packet := make([]byte, length)
	c.in.use(wire.LengthSize)
	if err := c.in.full(packet); err != nil {
		return err
	}
	_, _, body, err := wire.ParseHeader(packet)
	if err == nil {
		err = c.server.Parse(body)
	}
	if err != nil {
		return protocolErrorf("VERSION: %v", err)
	}
	if c.server.Version < wire.Version {
		return protocolErrorf("the server speaks version %d of SFTP, version %d is needed", c.server.Version, wire.Version)
	}
	close(c.ready)
	return nil
}

// textMax is how much of what is not SFTP is shown.
const textMax = 512

// firstWords returns what has come that is not SFTP, up to where it stops looking like text: behind what a login script has
// printed there may come packets of a server that speaks SFTP quite well.
func (c *Conn) firstWords() []byte {
	return text(c.in.buf[c.in.start:c.in.end])
}

func text(p []byte) []byte {
	end := 0
	for end < len(p) && end < textMax && (p[end] >= ' ' && p[end] != 0x7f || p[end] == '\n' || p[end] == '\r' || p[end] == '\t' || p[end] == 0x1b) {
		end++
	}
	if end == 0 {
		end = min(len(p), 32)
	}
	return append([]byte(nil), p[:end]...)
}
