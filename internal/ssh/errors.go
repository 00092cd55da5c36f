package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// A ProtocolError is a peer that broke the protocol.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return "ssh: protocol error: " + e.Text }

// A DisconnectError is a peer that ended the connection and said why: RFC 4253, section 11.1.
type DisconnectError struct {
	Reason uint32
	Text   string // as it came, 1 KiB at most: not for a terminal as it is
}

func (e *DisconnectError) Error() string {
	return fmt.Sprintf("ssh: disconnect, reason %d: %s", e.Reason, e.Text)
}

// A NegotiationError is two sides that have no algorithm in common.
type NegotiationError struct {
	What   string // "key exchange", "host key", "cipher to the server", ...
	Ours   []string
	Theirs []string // as they came
}

func (e *NegotiationError) Error() string {
	return fmt.Sprintf("ssh: no common %s: we offer %s, the peer %s", e.What,
		strings.Join(e.Ours, ","), strings.Join(e.Theirs, ","))
}

// An OpenChannelError is a channel that the peer refused: RFC 4254, section 5.1.
type OpenChannelError struct {
	Reason xssh.RejectionReason
	Text   string // as it came, 1 KiB at most
}

func (e *OpenChannelError) Error() string {
	return fmt.Sprintf("ssh: channel refused: %s (%s)", e.Text, e.Reason)
}

// An AuthError is a login that failed: the server refused, or the client's callback gave up.
type AuthError struct {
	Allowed []string // what the server would still have taken
	Tried   []string // methods that failed, in order
	Partial []string // methods that succeeded and did not suffice
	Err     error    // what the callback, or the connection, ended with; may be nil
}

func (e *AuthError) Error() string {
	s := "ssh: login failed: tried " + strings.Join(e.Tried, ",") + "; the server takes " +
		strings.Join(e.Allowed, ",")
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *AuthError) Unwrap() error { return e.Err }

// A FlightError is a server that did not get along with the short login (see [Flight]): a login
// without it may succeed. Err is how the connection ended.
type FlightError struct{ Err error }

func (e *FlightError) Error() string { return "ssh: the short login failed: " + e.Err.Error() }
func (e *FlightError) Unwrap() error { return e.Err }

// A HostKeyError is a server that could not prove that it holds its key, or that shows another one
// than before on the same connection.
type HostKeyError struct{ Err error }

func (e *HostKeyError) Error() string { return "ssh: host key: " + e.Err.Error() }
func (e *HostKeyError) Unwrap() error { return e.Err }

// A NotSSHError is a peer whose first words are not SSH's.
type NotSSHError struct{ Text []byte } // what came, as it came, 512 bytes at most

func (e *NotSSHError) Error() string { return "ssh: the peer does not speak SSH" }

var (
	// ErrClosed is what calls on a closed connection or channel return. errors.Is knows it as
	// net.ErrClosed.
	ErrClosed error = closedError{}

	// ErrChannelClosed is a channel that the peer has closed.
	ErrChannelClosed = errors.New("ssh: the peer has closed the channel")
)

type closedError struct{}

func (closedError) Error() string { return "ssh: the connection is closed" }
func (closedError) Unwrap() error { return net.ErrClosed }

// A TimeoutError is a limit of ours that passed. errors.Is knows it as os.ErrDeadlineExceeded.
type TimeoutError struct {
	Doing string
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("ssh: %s took longer than %v", e.Doing, e.After)
}
func (e *TimeoutError) Timeout() bool        { return true }
func (e *TimeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }
