package endpoint

import (
	"context"
	"errors"
	"io"
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
)
