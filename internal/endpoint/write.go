package endpoint

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp"
)

// Files is the directory in which a file is being written, on this machine or over one connection
// to a host. Names are whole paths. On the way there no link below the directory of a tree is
// followed, as far as the system or the host can promise that. No request is repeated.
type Files interface {
	// Lstat describes what is there. It follows no link in the last element.
	Lstat(name string) (fs.FileInfo, error)

	// Open opens a file to be written, or creates it, by the flags of os.OpenFile.
	Open(name string, flag int, perm fs.FileMode) (Writer, error)

	// Inherit returns the permissions of an old file for the one that takes its place, and gives
	// that what else it keeps; not its owner if the caller sets one. lost says what it does not
	// get, in sentences for people.
	Inherit(w Writer, name string, old fs.FileInfo, owned bool) (mode fs.FileMode, lost []string)

	// Remove removes a file.
	Remove(ctx context.Context, name string) error

	// Explain says more about why the file of this name could not be made or written.
	Explain(err error, name string) error

	Close()
}

// A Writer is an open file that is written. It repeats nothing, and is for one goroutine. One of
// Finish, Keep and Abandon ends it.
type Writer interface {
	io.WriterAt

	// Finish cuts off what lies beyond the end, sets attributes, flushes and closes the file, in
	// one round trip where a host works in order. Without an error all that was written is stored.
	Finish(ctx context.Context, f *Finish) (Finished, error)

	// Keep cuts the file down to n bytes, unless the host truncates none, and closes it, for
	// somebody to continue it later, as far as the host keeps incomplete files. ok is false if
	// other data may be in its place; flushed means that it is on disk.
	Keep(ctx context.Context, n int64) (ok, flushed bool)

	// Abandon closes the file, whatever it holds.
	Abandon(ctx context.Context)

	// Release gives up what this machine holds of the file. It is for the end, whatever came
	// before it.
	Release()
}

// Finish says how a file is finished.
type Finish struct {
	Truncate bool // it may be longer than Size
	Size     int64
	Set      usftp.NewAttrs
	Own      bool // it was made to be written
	Flush    bool
}

// Finished says what a file has that is finished.
type Finished struct {
	NotSet error // why attributes are not set, nil if they are
	Times  bool  // NotSet is about nothing but the times
	Unset  Unset
}

// ErrNotTruncated reports that the end of a longer old file is still there.
var ErrNotTruncated = errors.New("the host does not truncate files, and the old one was longer")
