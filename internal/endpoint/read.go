package endpoint

import (
	"context"
	"errors"
	"io"
)

// An Opener opens files to be read. On a host it does so over one connection, and repeats nothing.
type Opener interface {
	// Open opens a file and finds out what it is; on a host that takes one round trip. The open of
	// a pipe, and reads from it, end with ctx.
	Open(ctx context.Context, name string, how Opening) (Reader, error)

	// ReadWhole reads a small file that was listed as info says, and sets info to what it was when
	// it was read, as far as the host tells. The error is ErrNotListed if it is not a regular file
	// of that size, or changes meanwhile. It must fit one request (see private.Client.DataSizes).
	ReadWhole(ctx context.Context, name string, how Opening, info *Info, to Memory) error
}

// Opening says what is known of a file that is opened.
type Opening uint8

const (
	Regular  Opening = 1 << iota // it was a regular file: its open does not wait
	NoFollow                     // a link must not have taken its place, where the system can tell
	Growing                      // it may be read far beyond its size
)

// Memory is what ReadWhole reads into.
type Memory interface {
	Opened()           // the file is open
	Lend(n int) []byte // called at most once, when the contents are there
}

// A Reader is an open file. It is for one goroutine.
type Reader interface {
	io.Reader
	io.ReaderAt // of a host's file, best in order
	io.Seeker   // sets where the next Read begins; a stream need not be able to

	// Info describes the file as it was opened, Stat as it is now. Size is -1 if it is not known.
	Info() *Info
	Stat() (Info, error)

	// Again returns the same file for another goroutine, as long as this one is open.
	Again(ctx context.Context) (ReadAtCloser, error)
	Close() error
}

// A ReadAtCloser is a file that is read anywhere.
type ReadAtCloser interface {
	io.ReaderAt
	io.Closer
}

var (
	// ErrNotListed reports that a small file is no longer as it was listed.
	ErrNotListed = errors.New("changed since it was listed")

	// ErrGrown reports that a file has become much longer while it was read.
	ErrGrown = errors.New("the file has grown")
)
