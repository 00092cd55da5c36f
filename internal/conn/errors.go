package conn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"
)

// ErrClosed means that the connection was closed on this side. It matches [net.ErrClosed].
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return "the SFTP connection was closed" }
func (closedError) Unwrap() error { return net.ErrClosed }

// LostError means that the peer, or something on the way to it, ended the connection. It matches
// [net.ErrClosed] and its cause, but never io.EOF or io.ErrUnexpectedEOF: the end of a connection
// must not pass for the end of a file.
type LostError struct {
	Cause   error  // io.EOF if the peer ended the stream between two packets
	Listing string // the directory that the peer was listing when it ended the stream, or ""
}

func (e *LostError) Error() string {
	switch e.Cause {
	case io.EOF:
		if e.Listing != "" {
			return "the server closed the SFTP connection while it listed " + e.Listing
		}
		return "the server closed the SFTP connection"
	case io.ErrUnexpectedEOF:
		return "the server closed the SFTP connection in the middle of a packet"
	}
	return "the SFTP connection was lost: " + plain(e.Cause).Error()
}

// plain strips the system call and the addresses from the error of a socket or pipe: "broken pipe"
// is all that a person needs.
func plain(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		err = file.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if syscallError, ok := errors.AsType[*os.SyscallError](err); ok {
		err = syscallError.Err
	}
	return err
}

func (e *LostError) Unwrap() []error { return []error{net.ErrClosed, notEOF{e.Cause}} }

// notEOF matches like its error, except for the end of a file.
type notEOF struct{ error }

func (e notEOF) Is(target error) bool {
	return target != io.EOF && target != io.ErrUnexpectedEOF && errors.Is(e.error, target)
}

func (e notEOF) As(target any) bool { return errors.As(e.error, target) }

// StallError means that the peer owed something for too long. It matches [net.ErrClosed] and is a
// [net.Error].
type StallError struct {
	After   time.Duration
	Data    bool   // bytes of a READ or WRITE were owed, and not the answer to a keepalive
	Request string // `LSTAT "/f"` or "READ at 0" if the peer lives but has not answered that, or ""
}

func (e *StallError) Error() string {
	switch {
	case e.Data:
		return fmt.Sprintf("the server has stalled: no data has moved for %v", e.After)
	case e.Request != "":
		return fmt.Sprintf("the server has stalled: no reply to %s for %v", e.Request, e.After)
	}
	return fmt.Sprintf("the server has stalled: no reply to requests or keepalives for %v", e.After)
}

func (e *StallError) Unwrap() error   { return net.ErrClosed }
func (e *StallError) Timeout() bool   { return true }
func (e *StallError) Temporary() bool { return false }

// Unanswered is the error of the request whose missing reply ended the connection, or that the peer
// had to answer first when it closed the stream, and of those about the same path or handle. It
// wraps the one that all others get.
type Unanswered struct{ Err error }

func (e Unanswered) Error() string { return e.Err.Error() }
func (e Unanswered) Unwrap() error { return e.Err }

// ProtocolError means that the peer broke the protocol: either in a way that ends the connection,
// and then it matches [net.ErrClosed], or in one reply, which fails one operation.
type ProtocolError struct {
	What  string
	Ended bool // the connection has ended
}

func (e *ProtocolError) Error() string { return "the server broke the SFTP protocol: " + e.What }

func (e *ProtocolError) Unwrap() error {
	if e.Ended {
		return net.ErrClosed
	}
	return nil
}

func protocolErrorf(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...), Ended: true}
}

// NotSFTPError means that the peer does not speak SFTP. It matches [net.ErrClosed].
type NotSFTPError struct {
	Text []byte // its first bytes, at most 512, unchanged
}

func (e *NotSFTPError) Error() string {
	if len(e.Text) == 0 {
		return "the server does not speak SFTP: it closed the stream without sending anything"
	}
	return fmt.Sprintf("the server does not speak SFTP; it said: %q", e.Text)
}

func (e *NotSFTPError) Unwrap() error { return net.ErrClosed }

// HandshakeError means that the caller gave up during the handshake. It matches [net.ErrClosed] and
// the context's cause.
type HandshakeError struct{ Cause error }

func (e *HandshakeError) Error() string {
	return "the server did not start SFTP: " + e.Cause.Error()
}

func (e *HandshakeError) Unwrap() []error { return []error{net.ErrClosed, e.Cause} }
