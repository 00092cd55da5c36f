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
// followed, if the system or the host can promise that. No request is repeated.
type Files interface {
	// Lstat describes an entry. It follows no link in the last element.
	Lstat(name string) (fs.FileInfo, error)

	// Open opens or creates a file for writing, by the flags of os.OpenFile.
	Open(name string, flag int, perm fs.FileMode) (Writer, error)

	// Inherit returns the permissions of an old file for the file that takes its place, and gives that
	// the other attributes it keeps; not the owner if the caller sets one. lost names attributes that
	// the new file does not get, in sentences for people.
	Inherit(w Writer, name string, old fs.FileInfo, owned bool) (mode fs.FileMode, lost []string)

	// Remove removes a file.
	Remove(ctx context.Context, name string) error

	// Explain adds to err the reason why the file could not be made or written.
	Explain(err error, name string) error

	Close()
}

// A Writer is a file that is open for writing. It repeats nothing, and is for one goroutine. One of
// Finish, Keep and Abandon ends it.
type Writer interface {
	io.WriterAt

	// Finish cuts off data beyond the end, sets attributes, flushes and closes the file, in one round
	// trip where a host works in order. Without an error all written data is stored.
	Finish(ctx context.Context, f *Finish) (Finished, error)

	// Keep cuts the file down to n bytes, unless the host truncates none, and closes it, so that a
	// later run can continue it, if the host keeps incomplete files. ok is false if the file may hold
	// other data; flushed means that the bytes are on disk.
	Keep(ctx context.Context, n int64) (ok, flushed bool)

	// Abandon closes the file, whatever it holds.
	Abandon(ctx context.Context)

	// Release frees this machine's resources for the file. It is called last, whatever came before it.
	Release()
}

// Finish says how a file is finished.
type Finish struct {
	Truncate bool // it may be longer than Size
	Size     int64
	Set      usftp.NewAttrs
	Own      bool // it was made to be written
	Flush    bool
	Shows    bool // closing gives the file its name, which must not be if Truncate or Flush fail
}

// Finished is the result of finishing a file.
type Finished struct {
	NotSet error // why attributes are not set, nil if they are
	Times  bool  // NotSet is only about the times
	Unset  Unset
}

// ErrNotTruncated reports that the end of a longer old file is still there.
var ErrNotTruncated = errors.New("the host does not truncate files, and the old one was longer")
