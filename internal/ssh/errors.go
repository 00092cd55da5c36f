package ssh

import (
	"errors"
	"fmt"
	"net"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// A ProtocolError reports that the peer violated the protocol.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return "ssh: protocol error: " + e.Text }

// A DisconnectError reports that the peer ended the connection and gave a reason: RFC 4253, section
// 11.1.
type DisconnectError struct {
	Reason uint32
	Text   string // unfiltered, at most 1 KiB: escape it before printing
}

func (e *DisconnectError) Error() string {
	return fmt.Sprintf("ssh: disconnect, reason %d: %s", e.Reason, e.Text)
}

// A NegotiationError reports that both sides have no algorithm in common.
type NegotiationError struct {
	What   string // "key exchange", "host key", "cipher to the server", ...
	Ours   []string
	Theirs []string // unfiltered
}

func (e *NegotiationError) Error() string {
	return fmt.Sprintf("ssh: no common %s: we offer %s, the peer %s", e.What,
		strings.Join(e.Ours, ","), strings.Join(e.Theirs, ","))
}

// An OpenChannelError reports that the peer refused a channel: RFC 4254, section 5.1.
type OpenChannelError struct {
	Reason xssh.RejectionReason
	Text   string // unfiltered, at most 1 KiB
}

func (e *OpenChannelError) Error() string {
	return fmt.Sprintf("ssh: channel refused: %s (%s)", e.Text, e.Reason)
}

// An AuthError reports that a login failed: the server refused, or the client's callback gave up.
type AuthError struct {
	Allowed []string // methods the server would still accept
	Tried   []string // methods that failed, in order
	Err     error    // the error of the callback or the connection; may be nil
}

func (e *AuthError) Error() string {
	s := "ssh: login failed: tried " + strings.Join(e.Tried, ",") + "; the server accepts " +
		strings.Join(e.Allowed, ",")
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *AuthError) Unwrap() error { return e.Err }

// A FlightError reports that the server could not handle the short login (see [Flight]): a login
// without it may succeed. Err is how the connection ended. Answered reports whether the server had
// answered a part of it: if not, the link may have been cut.
type FlightError struct {
	Err      error
	Answered bool
}

func (e *FlightError) Error() string { return "ssh: the short login failed: " + e.Err.Error() }
func (e *FlightError) Unwrap() error { return e.Err }

var (
	// ErrClosed is returned by calls on a closed connection or channel. It matches net.ErrClosed.
	ErrClosed error = closedError{}

	// ErrChannelClosed reports that the peer has closed the channel.
	ErrChannelClosed = errors.New("ssh: the peer closed the channel")

	errNotSSH = errors.New("ssh: the peer does not speak SSH")
	errOldSSH = errors.New("ssh: the peer speaks only version 1 of SSH")
)

type closedError struct{}

func (closedError) Error() string { return "ssh: the connection is closed" }
func (closedError) Unwrap() error { return net.ErrClosed }
