package conn

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/usftp/usftp/wire"
)

// maxVersion limits the VERSION packet, which holds a few dozen names. The first bytes of a text,
// taken for a length, are far above it.
const maxVersion = 64 << 10

// Handshake waits for the server's VERSION (draft-02, section 4). If ctx is done first the
// connection ends. The error is a [NotSFTPError] if the peer speaks something else.
func (c *Conn) Handshake(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	default:
	}
	select {
	case <-c.ready:
		return nil
	case <-c.life.Done():
	case <-ctx.Done():
		c.end(&HandshakeError{Cause: context.Cause(ctx)})
	}
	return c.Err()
}

// readVersion reads the first packet, which must be VERSION.
func (c *Conn) readVersion() error {
	// Each byte is checked as it arrives. A peer that has sent something else may be waiting for
	// us, and the rest of a header would never come.
	var head []byte
	for n := 1; n <= versionHead; n++ {
		var err error
		if head, err = c.in.need(n); err == io.EOF || err == io.ErrUnexpectedEOF {
			said, _ := text(head)
			return &NotSFTPError{Text: said}
		}
		if err != nil {
			return err
		}
		if !beginsVersion(head) {
			return c.notSFTP()
		}
	}
	length := binary.BigEndian.Uint32(head)
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
		return protocolErrorf("the server speaks version %d of SFTP, version %d is needed",
			c.server.Version, wire.Version)
	}
	close(c.ready)
	return nil
}

// versionHead is how many bytes identify a VERSION: its length and its type.
const versionHead = wire.LengthSize + 1

// beginsVersion reports whether p may be the beginning of a VERSION packet.
func beginsVersion(p []byte) bool {
	if len(p) < wire.LengthSize {
		return p[0] == 0 // else the length is 16 MiB or more
	}
	length := binary.BigEndian.Uint32(p)
	return length >= 5 && length <= maxVersion &&
		(len(p) < versionHead || wire.Type(p[wire.LengthSize]) == wire.TypeVersion)
}

const (
	// textMax is how much text to show from a peer that does not speak SFTP.
	textMax = 512

	// textGrace is how long to wait for more text. The peer may be waiting for us, as a shell does.
	textGrace = 200 * time.Millisecond
)

// notSFTP reads the text that has arrived and returns the error that shows it. After a login
// script's output a server may speak SFTP properly.
func (c *Conn) notSFTP() error {
	var mu sync.Mutex
	said, more := text(c.in.buf[c.in.start:c.in.end])
	timer := time.AfterFunc(textGrace, func() { // the stream's Read cannot be told to return
		mu.Lock()
		err := &NotSFTPError{Text: said}
		mu.Unlock()
		c.end(err)
	})
	defer timer.Stop()
	for more {
		head, err := c.in.need(c.in.end - c.in.start + 1)
		if err != nil {
			break
		}
		mu.Lock()
		said, more = text(head)
		mu.Unlock()
	}
	return &NotSFTPError{Text: said}
}

// text returns the printable beginning of p, and whether more may follow.
func text(p []byte) (said []byte, more bool) {
	end := 0
	for end < len(p) && end < textMax &&
		(p[end] >= ' ' && p[end] != 0x7f || p[end] == '\n' || p[end] == '\r' || p[end] == '\t' ||
			p[end] == 0x1b) {
		end++
	}
	more = end == len(p) && end < textMax
	if end == 0 {
		end = min(len(p), 32)
	}
	return bytes.Clone(p[:end]), more
}
