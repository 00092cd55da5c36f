package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/usftp/usftp"
)

// Error is how a job fails: one sentence that names the file, the host and the cause.
type Error struct {
	Host      string
	From      string // the host of the source, where that is another
	Direction Direction
	Source    string
	Target    string
	Err       error // the cause; errors.Is holds for what it holds for
	// what is left behind, or what has happened to the target; "" where it is untouched
	Detail string

	// Resumable says that the same job with Options.Resume would go on from what is left behind.
	Resumable bool

	temporary string // the target's temporary name
}

// Error says the file, the host, the cause, and what is left.
func (e *Error) Error() string {
	source, target := e.Source, e.Target
	switch e.Direction {
	case Download:
		source = e.Host + ":" + source
	case Upload:
		target = e.Host + ":" + target
	case Relay:
		source, target = e.From+":"+source, e.Host+":"+target
	}
	message := fmt.Sprintf("cannot copy %s to %s: %s%s", source, target, e.at(), e.cause())
	if e.Direction == Checking {
		if e.Host != "" {
			source = e.Host + ":" + source
		}
		message = source + ": " + e.cause()
	}
	if e.Detail != "" {
		message += "; " + e.Detail
	}
	return message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// at says on which of two machines it was, where the cause alone would not tell.
func (e *Error) at() string {
	var status *usftp.StatusError
	switch {
	case (e.Direction == Upload || e.Direction == Download) && e.Host != "" &&
		errors.Is(e.Err, fs.ErrPermission):
		if errors.As(e.Err, &status) {
			return "on " + e.Host + ": "
		}
		return "on this machine: "
	case e.Direction != Relay || e.From == e.Host || errors.Is(e.Err, context.Canceled):
		return ""
	case isOfSource(e.Err):
		return "on " + e.From + ": "
	case errors.As(e.Err, &status), errors.Is(e.Err, net.ErrClosed):
		return "on " + e.Host + ": "
	}
	return ""
}

// cause says the cause without what the sentence has said already: the operation and the path that
// package os and its like put in front, where the path is the source or the target.
func (e *Error) cause() string {
	if errors.Is(e.Err, context.Canceled) {
		return "interrupted"
	}
	cause := e.Err
	if source, ok := cause.(*sourceError); ok {
		cause = source.error
	}
	switch err := cause.(type) {
	case *fs.PathError:
		if e.noDirectory(err) {
			return "there is no directory to put it in"
		}
		if err.Path == e.Source || err.Path == e.Target || err.Path == e.temporary {
			if silent(err.Err) {
				return fmt.Sprintf("the server refused the request to %s and gave no reason (failure)", err.Op)
			}
			return plain(err.Err)
		}
		return fmt.Sprintf("cannot %s %s: %s", err.Op, err.Path, plain(err.Err))
	case *os.LinkError:
		return fmt.Sprintf("cannot %s %s to %s: %s", err.Op, err.Old, err.New, plain(err.Err))
	}
	return plain(cause)
}

// noDirectory tells whether it was the target that could not be made or found. "No such file" of a
// file that is to be made would let a person look at the source.
func (e *Error) noDirectory(err *fs.PathError) bool {
	var status *usftp.StatusError
	atHost := errors.As(err, &status)
	opening := err.Op == "open" || err.Op == "openat" || err.Op == "stat"
	switch e.Direction {
	case Relay:
		return opening && errors.Is(err, fs.ErrNotExist) && !isOfSource(e.Err)
	case Local:
		return opening && errors.Is(err, fs.ErrNotExist) && err.Path != e.Source
	case Checking:
		return false
	}
	return opening && errors.Is(err, fs.ErrNotExist) && atHost == (e.Direction == Upload)
}

// silent tells whether a server has said no more than that it could not do something.
func silent(err error) bool {
	status, ok := err.(*usftp.StatusError)
	return ok && status.FxCode() == usftp.ErrSSHFxFailure &&
		(status.Message == "" || strings.EqualFold(status.Message, "failure"))
}

func plain(err error) string {
	if errors.Is(err, fs.ErrClosed) {
		return "the file was closed meanwhile"
	}
	return err.Error()
}

// failure makes an error of the job's.
func (r *run) failure(err error) error {
	return &Error{
		Host: r.Host.Name, From: r.From.Name, Direction: r.Direction, Source: r.Source, Target: r.result.Target,
		// what was gone on from is left again
		Err: err, Detail: r.detail, Resumable: r.resumable, temporary: cmp.Or(r.temporary,
			r.result.LeftBehind),
	}
}

// The reasons that are the job's own.
var (
	// ErrIsDirectory says that the source is a directory.
	ErrIsDirectory = errors.New("it is a directory")

	// ErrSourceChanged says that the source was written to while it was read.
	ErrSourceChanged = errors.New("the source has changed while it was copied")

	// ErrBadName says that a name that a server sent cannot be one.
	ErrBadName = errors.New("the server has sent a name that is none")
)

// noSpace says that the host's file system is full. The protocol has only FAILURE for it.
type noSpace struct {
	host   string
	free   uint64
	inodes bool // they are what there are none of
	err    error
}

func (e *noSpace) Error() string {
	if e.inodes {
		return fmt.Sprintf("no space left on %s for another file (no free inodes)", e.host)
	}
	return fmt.Sprintf("no space left on %s (%d bytes free)", e.host, e.free)
}

func (e *noSpace) Unwrap() []error { return []error{syscall.ENOSPC, e.err} }

// readOnly says that the host's file system takes no changes. The protocol has only FAILURE for it.
type readOnly struct {
	host string
	err  error
}

func (e *readOnly) Error() string { return "the file system on " + e.host + " is read-only" }

func (e *readOnly) Unwrap() []error { return []error{syscall.EROFS, e.err} }

// flagReadOnly is SSH2_FXE_STATVFS_ST_RDONLY (OpenSSH's PROTOCOL, section 4.4).
const flagReadOnly = 1

// explainWrite tells a full disk, and one that takes no changes, from other failures of a write.
func (r *run) explainWrite(err error, dir string) error {
	var status *usftp.StatusError
	if isOfSource(err) || !errors.As(err, &status) || !errors.Is(err, usftp.ErrSSHFxFailure) {
		return err
	}
	return explainFailure(err, r.Host.Client, r.Host.Name, dir)
}

// explainFailure asks what state the file system is in that holds dir.
func explainFailure(err error, client *usftp.Client, host, dir string) error {
	vfs, statErr := client.StatVFS(dir)
	if statErr == nil && vfs.Flag&flagReadOnly != 0 {
		return &readOnly{host: host, err: err}
	}
	inodes := statErr == nil && vfs.Files > 0 && vfs.Favail == 0
	if statErr != nil || vfs.AvailableSpace() >= fullBelow && !inodes {
		return err
	}
	return &noSpace{host: host, free: vfs.Bavail * vfs.Frsize, inodes: inodes, err: err}
}

// fullBelow is what a file system that has just refused a write has left if that was why: less than
// a packet.
const fullBelow = 1 << 20

// interrupted tells whether a job ended because its context did, or because the connection did:
// what it has written may then be of use.
func (r *run) interrupted(err error) bool {
	return r.ctx.Err() != nil || r.lost()
}

// lost tells whether a connection has ended.
func (r *run) lost() bool {
	return lost(r.Host.Client) || r.from != nil && lost(r.From.Client)
}
