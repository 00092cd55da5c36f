package endpoint

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp"
)

// An Opener opens files to be read. On a host it does so over one connection, and repeats nothing.
type Opener interface {
	// Open opens a file and gets its Info; on a host that takes one round trip. Opening a pipe, and
	// reading from it, end with ctx.
	Open(ctx context.Context, name string, how Opening) (Reader, error)

	// ReadWhole reads a small file that was listed with info, and sets info to its state when it was
	// read, if the host tells it. The error is ErrNotListed if it is not a regular file of that size,
	// or changes meanwhile. It must fit one request (see private.Client.DataSizes).
	ReadWhole(ctx context.Context, name string, how Opening, info *Info, to Memory) error
}

// Opening holds the known facts about a file to be opened.
type Opening uint8

const (
	Regular  Opening = 1 << iota // it was a regular file: its open does not wait
	NoFollow                     // a link must not have taken its place, where the system can tell
	Growing                      // it may be read far beyond its size
)

// Memory provides the buffer for ReadWhole.
type Memory interface {
	Opening()          // the file is about to be opened
	Opened()           // the file is open
	Closing()          // it is closed before anything that is opened from now on; may not come
	Lend(n int) []byte // called at most once, when the contents are there
}

// A Reader is an open file. It is for one goroutine.
type Reader interface {
	io.Reader
	io.ReaderAt // of a host's file, best in order
	io.Seeker   // sets where the next Read begins; a stream may not support it

	// Info describes the file as it was opened, Stat as it is now. Size is -1 if it is not known.
	Info() *Info
	Stat() (Info, error)

	// Again returns the same file for another goroutine, as long as this one is open.
	Again(ctx context.Context) (ReadAtCloser, error)
	Close() error
}

// A ReadAtCloser is a file that is read anywhere.
type ReadAtCloser = interface {
	io.ReaderAt
	io.Closer
}

var (
	// ErrNotListed reports that a small file is no longer as it was listed.
	ErrNotListed = errors.New("changed since it was listed")

	// ErrGrown reports that a file has become much longer while it was read.
	ErrGrown = errors.New("the file has grown")

	// ErrNotTruncated reports that the end of a longer old file is still there.
	ErrNotTruncated = errors.New("the host does not truncate files, and the old one was longer")
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

	// Finish cuts off data beyond the end, flushes the file, sets attributes and closes it, in one round
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
	Early    bool // it had its size before its data, which is flushed, unless nothing can be
	Shows    bool // closing gives the file its name, which must not be if Truncate or Flush fail
}

// Finished is the result of finishing a file.
type Finished struct {
	NotSet error // why attributes are not set, nil if they are
	Times  bool  // NotSet is only about the times
	Unset  Unset
}
