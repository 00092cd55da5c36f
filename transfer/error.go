package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
)

var (
	// ErrIsDirectory reports that the source or the target is a directory.
	ErrIsDirectory = endpoint.ErrIsDirectory

	// ErrSourceChanged reports that the source was written to while it was read.
	ErrSourceChanged = filecopy.ErrSourceChanged

	// ErrBadName reports an invalid file name from a server.
	ErrBadName = localfs.ErrBadName

	// ErrVerify reports that the stored file differs from the copied data.
	ErrVerify = filecopy.ErrVerify
)

// Error reports why a copy failed, in one sentence that names the file, the host and the cause.
type Error struct {
	Route
	Err       error  // the cause
	Detail    string // the leftover, or the state of the target; "" if it is untouched
	Resumable bool   // Options.Resume would continue from the leftover

	temporary string // the target's temporary name
	ofSource  bool
	op        op
}

// An op is the operation that failed.
type op uint8

const (
	opCopy op = iota
	opCheck
	opDelete
	opRemove // of a source that has been copied
)

func newError(j *job, source, target string, err error) *Error {
	e := &Error{Route: j.route, Err: endpoint.Unmarked(err), ofSource: endpoint.IsOfSource(err)}
	e.Source, e.Target, e.op = source, target, j.op
	return e
}

// Error returns one sentence with the file, the host, the cause, and the Detail.
func (e *Error) Error() string {
	var message string
	source, target := endpoint.Shown(e.SourceHost, e.Source), endpoint.Shown(e.TargetHost, e.Target)
	switch cause := e.cause(); e.op {
	case opCopy:
		message = fmt.Sprintf("cannot copy %s to %s: %s%s", source, target, e.at(), cause)
	case opCheck:
		message = source + ": " + cause
	case opDelete:
		message = fmt.Sprintf("cannot delete %s: %s", target, cause)
	case opRemove:
		message = fmt.Sprintf("%s was copied to %s, but is not removed: %s", source, target, cause)
	}
	if e.Detail != "" {
		message += "; " + e.Detail
	}
	return message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// at names the machine on which the copy failed, if the cause alone does not show it.
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
		op, rooted := ofRoot(err.Op)
		// About a file to be created, "no such file" would mislead users to look at the source.
		if !e.ofSource && e.op != opCheck && errors.Is(err, fs.ErrNotExist) {
			switch op {
			case "open", "stat", "mkdir":
				return endpoint.NoDirectory(endpoint.Shown(e.TargetHost, e.above())).Error()
			}
		}
		if e.names(err.Path, rooted) {
			if silent(err.Err) {
				return fmt.Sprintf("the server refused the request to %s and gave no reason (failure)", err.Op)
			}
			return e.plain(err.Err) + e.ofName(op, err.Err)
		}
		return fmt.Sprintf("cannot %s %s: %s", op, err.Path, endpoint.Plain(err.Err))
	case *os.LinkError:
		op, _ := ofRoot(err.Op)
		return fmt.Sprintf("cannot %s %s to %s: %s", op, err.Old, err.New, endpoint.Plain(err.Err))
	}
	return e.plain(e.Err)
}

// ofName says what may be meant if something could not be made: EINVAL, or BAD_MESSAGE, with which
// OpenSSH's server answers for it, where a file system does not take a name, as FAT takes no colon.
func (e *Error) ofName(op string, err error) string {
	if !e.ofSource && (op == "open" || op == "mkdir") &&
		(errors.Is(err, syscall.EINVAL) || errors.Is(err, usftp.ErrSSHFxBadMessage)) {
		return "; perhaps the file system does not take this name"
	}
	return ""
}

// ofRoot returns the operation of an error as people know it. rooted is set for those of os.Root,
// which it calls openat and so on, with a name in an open directory for a path.
func ofRoot(op string) (plain string, rooted bool) {
	if strings.HasSuffix(op, "stat") { // setstat, too
		return op, false
	}
	return strings.CutSuffix(op, "at")
}

// names reports whether the path of an error is one that the sentence names.
func (e *Error) names(of string, rooted bool) bool {
	dir := strings.TrimSuffix(strings.TrimSuffix(of, "/."), "/.") // see endpoint.Local.List
	for _, name := range []string{e.Source, e.Target, e.temporary} {
		if of == name || dir == name || rooted && of == path.Base(filepath.ToSlash(name)) {
			return true
		}
	}
	return false
}

// above returns the directory of the target.
func (e *Error) above() string {
	if e.TargetHost == "" {
		return filepath.Dir(e.Target)
	}
	return path.Dir(e.Target)
}

// plain describes an error about the source or the target, and names it where "it" could be either.
func (e *Error) plain(err error) string {
	switch {
	case e.op == opCheck || !errors.Is(err, endpoint.ErrNotDirectory):
		return endpoint.Plain(err)
	case e.ofSource:
		return "the source is not a directory (transfer.Copy copies files)"
	}
	return "the target is not a directory"
}

// silent reports whether a server gave no reason for a failure.
func silent(err error) bool {
	status, ok := err.(*usftp.StatusError)
	return ok && status.FxCode() == usftp.ErrSSHFxFailure &&
		(status.Message == "" || strings.EqualFold(status.Message, "failure"))
}
