package transfer

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// habits are what a host has shown since it was logged in to, over all connections, so that
// thousands of files need not each find it out, and say it.
type habits struct {
	apart       atomic.Bool // what one handle writes another does not see
	noTemporary atomic.Bool // it takes no file of such a name where it takes one of the target's
	noRename    atomic.Bool // it gives no file another name
	said        atomic.Bool
}

// mayReplace tells whether a file can be written under a temporary name and renamed, as far as it
// is known: of the host, and of the directory that the target lies in. Who insists on it is to see
// it fail.
func (r *run) mayReplace() bool {
	switch {
	case r.Options.Placement == Atomic:
		return true
	case r.Options.Placement == InPlace:
		return false
	case r.line.habits.noTemporary.Load(), r.line.habits.noRename.Load():
		return false
	}
	return r.item == nil || !r.item.dir.noTemporary.Load()
}

// nameRefused reports whether a file could not be created because of its name, or because none may
// be created there. Only then may the target itself be written: to open it empties it, and whatever
// else is wrong (a full file system, a quota, too many open files, a bad disk, or what nobody
// knows) would be wrong for the new contents too, when the old ones are lost already.
//
// OpenSSH's sftp-server says PERMISSION_DENIED for EACCES and EPERM, BAD_MESSAGE for ENAMETOOLONG
// and EINVAL, and FAILURE for everything else, ENOSPC, EDQUOT, EMFILE and EIO among it. So a FAILURE
// counts only where the server's message names the reason.
func nameRefused(err error) bool {
	var status *usftp.StatusError
	if errors.As(err, &status) {
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

// notCreated is the error of a temporary file that could not be created, and says what else there
// is to try.
func (r *run) notCreated(err error) error {
	if r.Options.Placement == Auto && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, syscall.EROFS) {
		r.detail = "no temporary file can be created beside the target, which is untouched; with --inplace the target itself is written"
	}
	return err
}

// noTemporary remembers that no temporary file could be created where the target itself could.
// Where the target is new, the same right was needed for both, so it is the name that the host does
// not take; else the directory may be one that takes no new names.
func (r *run) noTemporary(isNew bool) {
	if isNew {
		r.line.habits.noTemporary.Store(true)
	} else if r.item != nil {
		r.item.dir.noTemporary.Store(true)
	}
	r.sayInPlace("no temporary file can be created beside the target: it is written in place")
}

// noRename remembers that the host has refused to give a file a name that nothing had. What it
// refuses for a name that something has may be that file's own matter, and a disk that is full will
// refuse what is written in place too.
func (r *run) noRename(err error, isNew bool) {
	if !isNew || r.Options.Placement == Atomic ||
		!nameRefused(err) && !errors.Is(err, errors.ErrUnsupported) {
		return
	}
	r.line.habits.noRename.Store(true)
	if r.item != nil {
		r.sayInPlace("the host does not rename files: those that follow are written in place")
	}
}

// sayInPlace says something once, of all files of which it holds.
func (r *run) sayInPlace(why string) {
	if r.line.habits.said.Swap(true) {
		return
	}
	if r.item != nil {
		why += " (this is said once for all files of the tree)"
	}
	r.note(why)
}
