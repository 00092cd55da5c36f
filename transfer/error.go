package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/wire"
)

var (
	// ErrIsDirectory reports that the source or the target is a directory.
	ErrIsDirectory = errors.New("is a directory")

	// ErrSourceChanged reports that the source was written to while it was read.
	ErrSourceChanged = errors.New("the source changed while it was copied")

	// ErrBadName reports an invalid file name from a server.
	ErrBadName = localfs.ErrBadName

	// ErrVerify reports that the stored file differs from what was copied.
	ErrVerify = errors.New("what was stored differs from the source")

	errSameFile = errors.New("source and target are the same file")

	// errKept ends the copy of a file that is already up to date.
	errKept = errors.New("already exists")
)

func changedf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSourceChanged}, args...)...)
}

// Error reports why a copy failed, in one sentence that names the file, the host and the cause.
type Error struct {
	Route
	Err       error  // the cause
	Detail    string // what is left, or the state of the target; "" if it is untouched
	Resumable bool   // Options.Resume would continue from what is left

	temporary string // the target's temporary name
	ofSource  bool
	op        op
}

// An op is what failed.
type op uint8

const (
	opCopy op = iota
	opCheck
	opDelete
	opRemove // of a source that has been copied
)

func newError(j *job, source, target string, err error) *Error {
	e := &Error{Route: j.route, Err: err, ofSource: isOfSource(err)}
	e.Source, e.Target, e.op = source, target, j.op
	if s, ok := err.(*sourceError); ok {
		e.Err = s.error
	}
	return e
}

// Error returns one sentence with the file, the host, the cause, and what is left.
func (e *Error) Error() string {
	message := fmt.Sprintf("cannot copy %s to %s: %s%s", shown(e.SourceHost, e.Source),
		shown(e.TargetHost, e.Target), e.at(), e.cause())
	if e.op == opCheck {
		message = shown(e.SourceHost, e.Source) + ": " + e.cause()
	}
	if e.op == opDelete {
		message = fmt.Sprintf("cannot delete %s: %s", shown(e.TargetHost, e.Target), e.cause())
	}
	if e.op == opRemove {
		message = fmt.Sprintf("%s was copied to %s, but is not removed: %s",
			shown(e.SourceHost, e.Source), shown(e.TargetHost, e.Target), e.cause())
	}
	if e.Detail != "" {
		message += "; " + e.Detail
	}
	return message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// shown returns a path as users write it.
func shown(host, path string) string {
	if host == "" {
		return path
	}
	return host + ":" + path
}

// shown returns a path on the target's side as users write it.
func (r *copyRun) shown(path string) string { return shown(r.route.TargetHost, path) }

// at returns on which of two machines it happened, if the cause alone does not show that.
func (e *Error) at() string {
	var status *usftp.StatusError
	where := e.TargetHost
	if e.ofSource {
		where = e.SourceHost
	}
	switch {
	case e.SourceHost == e.TargetHost, errors.Is(e.Err, context.Canceled):
		return ""
	case e.SourceHost != "" && e.TargetHost != "":
		if !e.ofSource && !errors.As(e.Err, &status) && !errors.Is(e.Err, net.ErrClosed) {
			return ""
		}
	case !errors.Is(e.Err, fs.ErrPermission):
		return ""
	}
	if where == "" {
		return "on this machine: "
	}
	return "on " + where + ": "
}

// cause returns the cause without the operation and path if the sentence already names them.
func (e *Error) cause() string {
	if errors.Is(e.Err, context.Canceled) {
		return "interrupted"
	}
	switch err := e.Err.(type) {
	case *fs.PathError:
		// About a file to be created, "no such file" would mislead users to look at the source.
		if !e.ofSource && e.op != opCheck && errors.Is(err, fs.ErrNotExist) {
			switch err.Op {
			case "open", "openat", "stat", "mkdir", "mkdirat":
				return endpoint.NoDirectory(shown(e.TargetHost, e.above())).Error()
			}
		}
		if err.Path == e.Source || err.Path == e.Target || err.Path == e.temporary {
			if silent(err.Err) {
				return fmt.Sprintf("the server refused the request to %s and gave no reason (failure)", err.Op)
			}
			return e.plain(err.Err)
		}
		return fmt.Sprintf("cannot %s %s: %s", err.Op, err.Path, plain(err.Err))
	case *os.LinkError:
		return fmt.Sprintf("cannot %s %s to %s: %s", err.Op, err.Old, err.New, plain(err.Err))
	}
	return e.plain(e.Err)
}

// above returns the directory of the target.
func (e *Error) above() string {
	if e.TargetHost == "" {
		return filepath.Dir(e.Target)
	}
	return path.Dir(e.Target)
}

// plain describes an error about the source or the target, and says which of them it is where "it"
// could be both.
func (e *Error) plain(err error) string {
	switch {
	case e.op == opCheck || !errors.Is(err, endpoint.ErrNotDirectory):
		return plain(err)
	case e.ofSource:
		return "the source is not a directory"
	}
	return "the target is not a directory"
}

// silent reports whether a server gave no reason for a failure.
func silent(err error) bool {
	status, ok := err.(*usftp.StatusError)
	return ok && status.FxCode() == usftp.ErrSSHFxFailure &&
		(status.Message == "" || strings.EqualFold(status.Message, "failure"))
}

// plain returns an error's text, or a better one where Go's would puzzle users.
func plain(err error) string {
	switch {
	case errors.Is(err, fs.ErrClosed):
		return "the file was closed in the meantime"
	case err == syscall.ENOSPC, isDiskFull(err): // in the words in which it is said of a host
		return "no space left on this machine"
	}
	if _, system := err.(syscall.Errno); system && runtime.GOOS == "windows" {
		// Its own words are whole sentences, in the language of the system.
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "no such file or directory"
		case errors.Is(err, fs.ErrPermission):
			return "permission denied"
		case err == syscall.Errno(32): // ERROR_SHARING_VIOLATION
			return "another program has it open"
		}
		return strings.TrimSuffix(err.Error(), ".")
	}
	return err.Error()
}

// A sourceError marks an error as the source's. Unmarked errors may be either end's.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

func ofSource(err error) error {
	if err == nil || err == io.EOF || isOfSource(err) {
		return err
	}
	return &sourceError{err}
}

func isOfSource(err error) bool {
	return errors.As(err, new(*sourceError))
}

// noSuchName is what to know about a name for which badName holds.
const noSuchName = "the host cannot have this name, or it is too long"

// badName reports whether a host refused a name, and may take others.
func badName(err error) bool {
	status, ok := errors.AsType[*usftp.StatusError](err)
	return ok && slices.Contains([]wire.Code{wire.BadMessage, wire.InvalidFilename},
		wire.Code(status.Code))
}

// nameRefused reports whether a file could not be created because of its name, or because nothing
// may be created there. Only then may the target itself be written instead: any other problem (a
// full file system, a quota, too many open files, a bad disk) would hit the new contents too, once
// they have replaced some of the old ones.
//
// OpenSSH's sftp-server answers PERMISSION_DENIED for EACCES and EPERM, BAD_MESSAGE for
// ENAMETOOLONG and EINVAL, and FAILURE for everything else, including ENOSPC, EDQUOT, EMFILE and
// EIO. So a FAILURE counts only if its message names the reason.
func nameRefused(err error) bool {
	if status, ok := errors.AsType[*usftp.StatusError](err); ok {
		switch wire.Code(status.Code) {
		case wire.PermissionDenied, wire.WriteProtect, wire.BadMessage, wire.InvalidFilename:
			return true
		case wire.Failure:
			message := strings.ToLower(status.Message)
			for _, reason := range []string{"name too long", "permission denied",
				"operation not permitted", "read-only file system"} {
				if strings.Contains(message, reason) {
					return true
				}
			}
		}
		return false
	}
	for _, reason := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENAMETOOLONG,
		syscall.EINVAL} {
		if errors.Is(err, reason) {
			return true
		}
	}
	var code syscall.Errno
	if runtime.GOOS == "windows" && errors.As(err, &code) {
		switch code {
		case 19, 123, 206: // ERROR_WRITE_PROTECT, ERROR_INVALID_NAME, ERROR_FILENAME_EXCED_RANGE
			return true
		}
	}
	return false
}

// inTheWay returns an error for a target that cannot be replaced.
func inTheWay(name string, mode fs.FileMode) error {
	why := ErrIsDirectory
	if !mode.IsDir() {
		why = errors.New(kindOf(mode) + " is in the way")
	}
	return &fs.PathError{Op: "write", Path: name, Err: why}
}

// kindOf names the type of a file that cannot be copied.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeCharDevice != 0:
		return "a character device"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode.Type() == fs.ModeIrregular && runtime.GOOS == "windows":
		return "a junction or the like"
	}
	return "not a file, directory or link"
}

// noRoom reports whether the target's file system, its owner's quota or a limit of this process
// left no room for the file.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EFBIG) || isDiskFull(err)
}

// isDiskFull reports whether an error is Windows' for a full disk or quota.
func isDiskFull(err error) bool {
	code, ok := errors.AsType[syscall.Errno](err)
	// ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED
	return ok && runtime.GOOS == "windows" && (code == 39 || code == 112 || code == 1295)
}
