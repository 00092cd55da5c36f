package endpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

var (
	// ErrLinkInWay reports that a link is where a directory below a Root was or should be.
	ErrLinkInWay = errors.New(
		"a symbolic link is in the way, and links below the target are not followed")

	// ErrIsDirectory reports that the source or the target is a directory.
	ErrIsDirectory = errors.New("is a directory")

	// ErrNotDirectory and ErrNotRegular report that an entry is of another type.
	ErrNotDirectory = errors.New("not a directory")
	ErrNotRegular   = errors.New("not a regular file")

	// ErrReplaced reports that another file has taken a file's place.
	ErrReplaced = errors.New("another file has taken its place")

	// ErrMoved reports that another directory has taken a directory's place.
	ErrMoved = errors.New("is another directory now")

	// ErrWentAlong reports that a directory has lost its name, along with the entries put into it.
	ErrWentAlong = errors.New("the directory was moved meanwhile, with what was copied into it before")

	// ErrOtherNames reports that a file would also change under its other names.
	ErrOtherNames = errors.New("the file has other names (hard links)")

	// ErrLeft is also the error of a new file that could be neither written nor removed.
	ErrLeft = errors.New("was made and is left empty")

	// ErrRepeated is also the error of a request that was repeated over another connection: the first
	// one may have been executed.
	ErrRepeated = errors.New("requested twice")
)

// Refused reports whether the server answered that it did not execute a request; any other error
// leaves that open. So did this machine's file system if it denies an attribute.
func Refused(err error) bool {
	return errors.As(err, new(*usftp.StatusError)) || errors.As(err, new(denial))
}

// A denial marks the error of a file system of this machine that does not let us set an attribute.
type denial struct{ error }

func (d denial) Unwrap() error { return d.error }

// denied marks an error from setting attributes if it is a denial.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		return denial{err}
	}
	return err
}

// NoDirectory returns the error for a missing directory in which an entry was to be made.
func NoDirectory(dir string) error {
	return Explain(fmt.Sprintf("the directory %s does not exist (mkdir -p makes it)", dir),
		fs.ErrNotExist)
}

// IsAbsent reports whether an error means that an entry does not exist.
func IsAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// IgnoreMissing returns err, or nil if it says that a file does not exist.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Explain returns an error that wraps others, with a text that replaces theirs.
func Explain(text string, is ...error) error { return &explained{text, is} }

type explained struct {
	text string
	is   []error
}

func (e *explained) Error() string   { return e.text }
func (e *explained) Unwrap() []error { return e.is }

// ExplainMissing looks at dir after a name in it turned out missing, or was refused as some servers
// refuse missing names. OpenSSH's server answers the same for names below a file (errno_to_portable
// in sftp-server.c) and for a link that leads nowhere. If dir exists, the error's text does not say
// otherwise.
func ExplainMissing(err error, client *usftp.Client, dir string) error {
	info, statErr := client.Stat(dir)
	switch {
	case statErr != nil:
		return err
	case info.IsDir() && !errors.Is(err, fs.ErrNotExist): // it is refused for another reason
		return err
	case info.IsDir():
		return Explain("no such file, though its directory exists (it may be a link that leads nowhere)", err)
	}
	return &fs.PathError{Op: "write", Path: dir, Err: ErrNotDirectory}
}

// explainFailure asks for the state of dir's file system: the protocol has only FAILURE for a full
// or read-only one.
func explainFailure(err error, client *usftp.Client, host, dir string) error {
	vfs, statErr := client.StatVFS(dir)
	switch {
	case statErr != nil:
		return err
	case vfs.Flag&wire.StatVFSReadOnly != 0:
		return Explain("the file system on "+host+" is read-only", syscall.EROFS, err)
	case vfs.Files > 0 && vfs.Favail == 0:
		return Explain("no space left on "+host+" for another file (no free inodes)",
			syscall.ENOSPC, err)
	case vfs.AvailableSpace() < fullBelow:
		return Explain(fmt.Sprintf("no space left on %s (%d bytes free)", host,
			vfs.Bavail*vfs.Frsize), syscall.ENOSPC, err)
	}
	return err
}

// fullBelow is the free space below which a failed write is blamed on a full disk: it may have been
// less than a packet.
const fullBelow = 1 << 20

// A sourceError marks an error as the source's. Unmarked errors may be either end's.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// OfSource marks an error as the source's.
func OfSource(err error) error {
	if err == nil || err == io.EOF || IsOfSource(err) {
		return err
	}
	return &sourceError{err}
}

// IsOfSource reports whether an error is marked as the source's.
func IsOfSource(err error) bool {
	return errors.As(err, new(*sourceError))
}

// Unmarked returns an error without its mark as the source's.
func Unmarked(err error) error {
	if s, ok := err.(*sourceError); ok {
		return s.error
	}
	return err
}

// Shown returns a path as users write it; host is "" for this machine.
func Shown(host, path string) string {
	if host == "" {
		return path
	}
	return host + ":" + path
}

// Plain returns an error's text, or a better one where Go's would puzzle users.
func Plain(err error) string {
	switch {
	case errors.Is(err, fs.ErrClosed):
		return "the file was closed in the meantime"
	case err == syscall.ENOSPC, isDiskFull(err): // worded as for a host
		return "no space left on this machine"
	}
	if _, system := err.(syscall.Errno); system && runtime.GOOS == "windows" {
		// Windows' own messages are whole sentences, in the language of the system.
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

// NoSuchName explains the refusal of a name for which BadName holds.
const NoSuchName = "the host cannot have this name, or it is too long"

// BadName reports whether a host refused a name, but may accept others.
func BadName(err error) bool {
	status, ok := errors.AsType[*usftp.StatusError](err)
	return ok && slices.Contains([]wire.Code{wire.BadMessage, wire.InvalidFilename},
		wire.Code(status.Code))
}

// NameRefused reports whether a file could not be created because of its name, or because nothing
// may be created there. Only then may the target itself be written instead: any other problem (a
// full file system, a quota, too many open files, a bad disk) would hit the new contents too, once
// they have replaced some of the old ones.
//
// OpenSSH's sftp-server answers PERMISSION_DENIED for EACCES and EPERM, BAD_MESSAGE for
// ENAMETOOLONG and EINVAL, and FAILURE for everything else, including ENOSPC, EDQUOT, EMFILE and
// EIO. So a FAILURE counts only if its message names the reason.
func NameRefused(err error) bool {
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

// Unexplained reports whether a host refused a file or a rename because of the name, or for a
// reason that it keeps to itself: then another way of writing may work. A reason of its own, such
// as a quota or a virus scanner's verdict, would be the same there.
func Unexplained(err error) bool {
	status, ok := errors.AsType[*usftp.StatusError](err)
	if !ok || NoRoom(err) || IsAbsent(err) || errors.Is(err, syscall.EROFS) {
		return false
	}
	code, message := wire.Code(status.Code), strings.ToLower(status.Message)
	if code <= wire.NoMatchingRangeLock && !slices.Contains(vagueCodes, code) {
		return false
	}
	for _, reason := range []string{"name too long", "permission denied", "not permitted",
		"exists", "unsupported", "not supported"} {
		if strings.Contains(message, reason) {
			return true
		}
	}
	words := strings.FieldsFunc(message, func(r rune) bool { return !unicode.IsLetter(r) })
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(vagueWords, w) })
}

// CannotRename reports whether this machine has refused a rename for a reason that does not keep the
// file from being written: it is mounted by itself, as in a container, or nothing here is renamed.
func CannotRename(err error) bool {
	return slices.ContainsFunc([]error{syscall.EBUSY, syscall.EXDEV, syscall.ENOSYS,
		syscall.EOPNOTSUPP, syscall.EINVAL}, func(why error) bool { return errors.Is(err, why) })
}

// vagueCodes are those that servers give for many reasons, and vagueWords those of messages that
// give none, such as "General failure".
var (
	vagueCodes = []wire.Code{wire.Failure, wire.PermissionDenied, wire.BadMessage,
		wire.OpUnsupported, wire.FileAlreadyExists, wire.InvalidFilename}
	vagueWords = strings.Fields("a bad cannot could create error fail failed failure file filename " +
		"fx general invalid message not open operation rename request sftp ssh the to unknown")
)

// InTheWay returns an error for a target that cannot be replaced.
func InTheWay(name string, mode fs.FileMode) error {
	why := ErrIsDirectory
	if !mode.IsDir() {
		why = errors.New(KindOf(mode) + " is in the way")
	}
	return &fs.PathError{Op: "write", Path: name, Err: why}
}

// KindOf names the type of a file that cannot be copied.
func KindOf(mode fs.FileMode) string {
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

// NoRoom reports whether the target's file system, its owner's quota or a limit of this process
// left no room for the file.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EFBIG) || isDiskFull(err)
}

// isDiskFull reports whether an error is Windows' error for a full disk or quota.
func isDiskFull(err error) bool {
	code, ok := errors.AsType[syscall.Errno](err)
	// ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED
	return ok && runtime.GOOS == "windows" && (code == 39 || code == 112 || code == 1295)
}
