package usftp

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// ErrClosed is the error of operations on a client that was closed with [Client.Close]. It matches
// [net.ErrClosed], as does every error by which a connection ends.
var ErrClosed = conn.ErrClosed

// ErrSharedHandle is the error of operations on files and directories that were open when the
// server gave one handle to several of them, as the SFTP server of Erlang/OTP does: data written to
// one may be in another one, and data read may be another's. The server's handles are closed, and
// the Client goes on with one open file or directory at a time, so callers that start over get it
// right. Opening another one waits until the one before it is closed.
var ErrSharedHandle = conn.ErrSharedHandle

// ErrOneHandle is the error of opening a second file or directory on such a server, see
// [ErrSharedHandle], if nobody uses the first for the stall timeout (see [WithStallTimeout]), and
// of operations that need two at once.
var ErrOneHandle = conn.ErrOneHandle

// LostError says that the connection was ended by the server or by something on the way to it. It
// matches [net.ErrClosed] and its cause, but never io.EOF or [io.ErrUnexpectedEOF], which say that
// a file has ended.
type LostError struct {
	Cause   error  // io.EOF if the server ended the stream between two packets
	Listing string // the directory that the server was listing when it ended the stream, or ""
}

// Error describes the loss of the connection.
func (e *LostError) Error() string { return (*conn.LostError)(e).Error() }

// Unwrap returns net.ErrClosed and an error that matches everything the cause matches, except for
// the end of a file.
func (e *LostError) Unwrap() []error { return (*conn.LostError)(e).Unwrap() }

// StallError says that the connection was given up because the server's answer was overdue for
// longer than the stall timeout (see [WithStallTimeout]). It matches [net.ErrClosed] and is a
// [net.Error].
type StallError struct {
	After   time.Duration
	Data    bool   // bytes of a READ or WRITE were owed, and not the answer to a keepalive
	Request string // `LSTAT "/f"` or "READ at 0" if the server lives but has not answered that, or ""
}

// Error says what was owed, and for how long.
func (e *StallError) Error() string { return (*conn.StallError)(e).Error() }

// Unwrap returns net.ErrClosed.
func (e *StallError) Unwrap() error { return net.ErrClosed }

// Timeout returns true.
func (e *StallError) Timeout() bool { return true }

// Temporary returns false.
func (e *StallError) Temporary() bool { return false }

// ProtocolError says that the server sent something that no SFTP server may send. Either that was
// one broken reply, and only its operation has failed, or it has ended the connection; then it
// matches [net.ErrClosed].
type ProtocolError struct {
	What  string
	Ended bool // the connection has ended
}

// Error describes the violation.
func (e *ProtocolError) Error() string { return (*conn.ProtocolError)(e).Error() }

// Unwrap returns net.ErrClosed if the connection has ended, otherwise nil.
func (e *ProtocolError) Unwrap() error { return (*conn.ProtocolError)(e).Unwrap() }

// NotSFTPError says that the other side does not speak SFTP: a shell's start file prints something,
// or the account has no access. It matches [net.ErrClosed].
type NotSFTPError struct {
	Text []byte // its first output, at most 512 bytes, unchanged
}

// Error quotes the output.
func (e *NotSFTPError) Error() string { return (*conn.NotSFTPError)(e).Error() }

// Unwrap returns net.ErrClosed.
func (e *NotSFTPError) Unwrap() error { return net.ErrClosed }

// connError returns an error of a connection as the type of this package.
func connError(err error) error {
	switch e := err.(type) {
	case *conn.LostError:
		return (*LostError)(e)
	case *conn.StallError:
		return (*StallError)(e)
	case *conn.ProtocolError:
		return (*ProtocolError)(e)
	case *conn.NotSFTPError:
		return (*NotSFTPError)(e)
	}
	return err
}

// StatusError is a server's refusal: the STATUS packet that it answered with (draft-02, section 7).
// Operations return it wrapped in a [*fs.PathError] or [*os.LinkError].
//
// By its code it matches an error of package fs or errors:
//
//	NO_SUCH_FILE (2), NO_SUCH_PATH (10)          fs.ErrNotExist
//	PERMISSION_DENIED (3), WRITE_PROTECT (12)    fs.ErrPermission
//	FILE_ALREADY_EXISTS (11)                     fs.ErrExist
//	OP_UNSUPPORTED (8)                           errors.ErrUnsupported
//
// It also matches the ErrSSHFx value of its code. Version 3 has no code for most failures, so
// servers answer FAILURE (4); the message may say more. os.IsNotExist and similar functions do not
// see through wrapped errors: use errors.Is.
type StatusError struct {
	Code     uint32
	Message  string // the server's own words; may be empty
	Language string // of the message; usually empty
}

// Error returns the code in words and the server's message.
func (e *StatusError) Error() string {
	words := wire.Code(e.Code).String()
	if e.Message == "" || strings.EqualFold(e.Message, words) || e.onlyMissing() {
		return words
	}
	if wire.Code(e.Code) == wire.Failure {
		return fmt.Sprintf("the server says %q", e.Message)
	}
	return fmt.Sprintf("%s (the server says %q)", words, e.Message)
}

// onlyMissing reports whether the message says no more than that there is no such file. Servers in Go
// name the path again: "open /a: no such file or directory".
func (e *StatusError) onlyMissing() bool {
	return wire.Code(e.Code) == wire.NoSuchFile &&
		strings.HasSuffix(strings.ToLower(e.Message), "no such file or directory")
}

// FxCode returns the code, for comparing with the ErrSSHFx values.
func (e *StatusError) FxCode() FxCode { return FxCode(e.Code) }

// Is reports whether target is an error that the type's documentation names for the code.
func (e *StatusError) Is(target error) bool {
	if code, ok := target.(FxCode); ok {
		return e.Code == uint32(code)
	}
	switch wire.Code(e.Code) {
	case wire.NoSuchFile, wire.NoSuchPath:
		return target == fs.ErrNotExist
	case wire.PermissionDenied, wire.WriteProtect:
		return target == fs.ErrPermission
	case wire.FileAlreadyExists:
		return target == fs.ErrExist
	case wire.OpUnsupported:
		return target == errors.ErrUnsupported
	}
	return false
}

// FxCode is a status code as an error, to compare with errors.Is.
type FxCode uint32

// Error returns the code in words.
func (c FxCode) Error() string { return wire.Code(c).String() }

// The status codes of draft-02, section 7.
const (
	ErrSSHFxOk               = FxCode(wire.OK)
	ErrSSHFxEOF              = FxCode(wire.EOF)
	ErrSSHFxNoSuchFile       = FxCode(wire.NoSuchFile)
	ErrSSHFxPermissionDenied = FxCode(wire.PermissionDenied)
	ErrSSHFxFailure          = FxCode(wire.Failure)
	ErrSSHFxBadMessage       = FxCode(wire.BadMessage)
	ErrSSHFxNoConnection     = FxCode(wire.NoConnection)
	ErrSSHFxConnectionLost   = FxCode(wire.ConnectionLost)
	ErrSSHFxOpUnsupported    = FxCode(wire.OpUnsupported)
)

// failed returns the reason why a call has no good reply.
func failed(call *conn.Call) error {
	if call.Err != nil {
		return call.Err
	}
	return replyError(call)
}

// replyError returns the error in a reply, nil if it is a good one.
func replyError(call *conn.Call) error {
	switch status := call.Status; {
	case call.Type != wire.TypeStatus:
		return nil
	case status.Code != wire.OK:
		return &StatusError{Code: uint32(status.Code), Message: status.Message,
			Language: status.Language}
	case call.Expect != wire.TypeStatus:
		return &ProtocolError{What: fmt.Sprintf("success instead of %v", call.Expect)}
	}
	return nil
}

// invalidError is an error that matches fs.ErrInvalid.
type invalidError string

func (e invalidError) Error() string { return string(e) }
func (invalidError) Unwrap() error   { return fs.ErrInvalid }

// existsError replaces a server's refusal whose reason turned out to be that the name exists. It
// matches fs.ErrExist and everything that the refusal matches.
type existsError struct{ status error }

func (e *existsError) Error() string   { return "the name exists" }
func (e *existsError) Unwrap() []error { return []error{fs.ErrExist, e.status} }

// unsupported says that an operation fails because the server lacks its extension.
type unsupported struct{ extension string }

func (e *unsupported) Error() string { return "the server does not offer " + e.extension }
func (e *unsupported) Unwrap() error { return errors.ErrUnsupported }
