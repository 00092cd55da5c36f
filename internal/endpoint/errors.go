package endpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

var (
	// ErrLinkInWay reports that a link is where a directory below a Root was or should be.
	ErrLinkInWay = errors.New(
		"a symbolic link is in the way, and links below the target are not followed")

	// ErrNotDirectory and ErrNotRegular report that something else is there.
	ErrNotDirectory = errors.New("not a directory")
	ErrNotRegular   = errors.New("not a regular file")

	// ErrReplaced reports that a file is of another kind than it was.
	ErrReplaced = errors.New("another file has taken its place")

	// ErrMoved reports that another directory is where one was found.
	ErrMoved = errors.New("is another directory now")

	// ErrWentAlong reports that a directory has lost its name with what was put there.
	ErrWentAlong = errors.New("the directory was moved meanwhile, with what was copied into it before")

	// ErrOtherNames reports that a file would change under its other names, too.
	ErrOtherNames = errors.New("the file has other names (hard links)")

	// ErrLeft is one error of a new file that could be neither written nor removed.
	ErrLeft = errors.New("was made and is left empty")

	// ErrRepeated is one error of a request that was repeated over another connection: the first
	// one may have been executed.
	ErrRepeated = errors.New("requested twice")
)

// Refused reports whether the server answered that it did not do something; with any other error
// nobody knows.
func Refused(err error) bool {
	return errors.As(err, new(*usftp.StatusError))
}

// NoDirectory returns the error of a directory in which something was to be made, and which does
// not exist.
func NoDirectory(dir string) error {
	return Explain(fmt.Sprintf("the directory %s does not exist (mkdir -p makes it)", dir),
		fs.ErrNotExist)
}

// IgnoreMissing returns err, or nil if it says that a file does not exist.
func IgnoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Explain returns an error whose text replaces those of the errors that it is.
func Explain(text string, is ...error) error { return &explained{text, is} }

type explained struct {
	text string
	is   []error
}

func (e *explained) Error() string   { return e.text }
func (e *explained) Unwrap() []error { return e.is }

// ExplainMissing asks what is where the directory should be, of something in it that does not
// exist, or that was refused as some servers refuse that. OpenSSH's server says that of what would
// be below a file, too (errno_to_portable in sftp-server.c), and of a link that leads nowhere. If
// the directory is there, the error has a text that does not say otherwise.
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

// ExplainFailure asks for the state of dir's file system: the protocol has only FAILURE for a full
// or read-only one.
func ExplainFailure(err error, client *usftp.Client, host, dir string) error {
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

// fullBelow is the free space below which a failed write is put down to a full disk: it may have
// been less than a packet.
const fullBelow = 1 << 20
