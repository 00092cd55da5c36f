package hooks

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// clamd asks ClamAV's daemon, by the command INSTREAM of clamd(8).
type clamd struct{ hook *Hook }

const (
	clamdChunk  = 64 << 10
	clamdAnswer = 4 << 10
)

// ClamdAddress returns the network and address of clamd: tcp://HOST:PORT, or the path of a socket.
func ClamdAddress(text string) (network, address string) {
	if address, ok := strings.CutPrefix(text, "tcp://"); ok {
		return "tcp", address
	}
	return "unix", text
}

func (c *clamd) check(ctx context.Context, _ *Event, contents *io.SectionReader) error {
	network, address := ClamdAddress(c.hook.Clamd)
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return fmt.Errorf("clamd does not answer: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	sent := send(conn, contents)
	if errors.As(sent, new(*unread)) { // clamd waits for the rest
		return sent
	}
	// A clamd that has seen enough answers and reads no more.
	answer, err := bufio.NewReader(io.LimitReader(conn, clamdAnswer)).ReadString(0)
	if err != nil {
		return fmt.Errorf("clamd gives no answer: %w", errors.Join(sent, err))
	}
	answer = strings.TrimSuffix(answer, "\x00")
	said, ok := strings.CutPrefix(answer, "stream: ")
	name, found := strings.CutSuffix(said, " FOUND")
	switch {
	case ok && found:
		return &refusal{printable(name)}
	case answer != "stream: OK":
		return fmt.Errorf("clamd answers %q", answer)
	}
	return sent
}

// unread is the error of contents that cannot be read.
type unread struct{ error }

func (u *unread) Unwrap() error { return u.error }

// send sends the contents in chunks, each behind its length, and an empty one at the end.
func send(conn net.Conn, contents io.Reader) error {
	if _, err := io.WriteString(conn, "zINSTREAM\x00"); err != nil {
		return err
	}
	chunk := make([]byte, 4+clamdChunk)
	for {
		n, err := io.ReadFull(contents, chunk[4:])
		binary.BigEndian.PutUint32(chunk, uint32(n))
		ends := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !ends {
			return &unread{err}
		}
		if n > 0 {
			if _, err := conn.Write(chunk[:4+n]); err != nil {
				return err
			}
		}
		if ends {
			_, err := conn.Write([]byte{0, 0, 0, 0})
			return err
		}
	}
}
