package server

import (
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp/server/internal/shown"
	"github.com/usftp/usftp/wire"
)

// StatusError lets a backend decide the exact answer to a client. Other errors are translated as
// OpenSSH's server does:
//
//	io.EOF                                          EOF
//	fs.ErrNotExist; no directory; too many links    NO_SUCH_FILE
//	fs.ErrPermission; a read-only file system       PERMISSION_DENIED
//	fs.ErrInvalid; a name too long                  BAD_MESSAGE
//	errors.ErrUnsupported                           OP_UNSUPPORTED
//	anything else                                   FAILURE
//
// The message is the error's text, without the operation and path of *fs.PathError and
// *os.LinkError, which may name places that the client must not learn.
type StatusError struct {
	Code    wire.Code
	Message string
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Message
}

// Is makes a StatusError match the errors that its code stands for.
func (e *StatusError) Is(target error) bool {
	switch e.Code {
	case wire.EOF:
		return target == io.EOF
	case wire.NoSuchFile:
		return target == fs.ErrNotExist
	case wire.PermissionDenied:
		return target == fs.ErrPermission
	case wire.BadMessage:
		return target == fs.ErrInvalid
	case wire.OpUnsupported:
		return target == errors.ErrUnsupported
	}
	return false
}

var (
	errUnsupported = &StatusError{Code: wire.OpUnsupported}
	errReadOnly    = &StatusError{Code: wire.PermissionDenied, Message: "the server is read-only"}
	errForbidden   = &StatusError{Code: wire.PermissionDenied,
		Message: "the operation is not allowed here"}
	errBadHandle  = &StatusError{Code: wire.Failure, Message: "invalid handle"}
	errBadMessage = &StatusError{Code: wire.BadMessage}
	errOffset     = &StatusError{Code: wire.BadMessage, Message: "offset out of range"}
	errLongPath   = &StatusError{Code: wire.BadMessage, Message: "file name too long"}
	errNoName     = &StatusError{Code: wire.NoSuchFile, Message: noSuchFile}
	errNulPath    = &StatusError{Code: wire.BadMessage, Message: "NUL in a file name"}
	errLongReply  = &StatusError{Code: wire.Failure, Message: "the reply is too long"}
	errNoUser     = &StatusError{Code: wire.NoSuchFile, Message: "no such user"}
	errHandles    = &StatusError{Code: wire.Failure, Message: "too many open handles"}
	errCount      = &StatusError{Code: wire.Failure, Message: "the backend returned an invalid count"}
)

// noSuchFile is the message of OpenSSH's server.
const noSuchFile = "No such file"

// statusOf translates an error.
func statusOf(err error) wire.Status {
	if err == nil {
		return wire.Status{Code: wire.OK, Message: wire.OK.String()}
	}
	status := wire.Status{Code: codeOf(err)}
	if status.Code == wire.EOF {
		status.Message = wire.EOF.String()
		return status
	}
	status.Message = shown.Message(err)
	if status.Code == wire.NoSuchFile && !errors.As(err, new(*StatusError)) {
		// Clients look for these words.
		if errors.Is(err, fs.ErrNotExist) {
			status.Message = noSuchFile
		} else {
			status.Message = noSuchFile + ": " + status.Message
		}
	}
	return status
}

func codeOf(err error) wire.Code {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code
	}
	switch {
	case errors.Is(err, io.EOF):
		return wire.EOF
	case errors.Is(err, fs.ErrNotExist), isNotDirectory(err):
		return wire.NoSuchFile
	case errors.Is(err, fs.ErrPermission), isReadOnly(err), isEscape(err):
		return wire.PermissionDenied
	case errors.Is(err, fs.ErrInvalid), isInvalid(err):
		return wire.BadMessage
	case errors.Is(err, errors.ErrUnsupported):
		return wire.OpUnsupported
	}
	return wire.Failure
}

// isEscape reports whether os.Root refused a path that leads out of it; it is not exported.
func isEscape(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Err != nil && e.Err.Error() == "path escapes from parent"
}
