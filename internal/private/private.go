// Package private gives this module's own packages what a [usftp.Client] and a [usftp.File] can do
// and programs have no use for: one file over several connections, small files in one round trip,
// and what a server is known for.
package private

import (
	"io"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private/hook"
)

// Client are further methods of a [usftp.Client].
type Client interface {
	// WorksInOrder reports whether the server is known to carry out requests one at a time, in the
	// order in which they came, as OpenSSH's does: requests that depend on one another may then be
	// sent at once.
	WorksInOrder() bool
	// ReadsOnce reports whether the server is known to count how often a file is read, so that none
	// should be read without need.
	ReadsOnce() bool
	// Touches reports whether the server is known to show the present time of files that it has in
	// a cache.
	Touches() bool
	// DataSizes returns how many bytes one READ and one WRITE may carry. It waits for the server's
	// limits if they are still on their way.
	DataSizes() (read, write int, err error)
}

// OfClient returns the further methods of a client.
func OfClient(c *usftp.Client) Client { return hook.Client(c).(Client) }

// File are further methods of a [usftp.File].
type File interface {
	// StartWriteClose writes p, which must fit one request (see [Client.DataSizes]), at the
	// beginning of a file that is open for writing, sets its attributes and closes it, whatever
	// fails. p is the caller's again when it returns. wait, which must be called, returns the
	// result; refused is why the attributes could not be set, when the contents may be complete all
	// the same.
	//
	// It takes one round trip on servers that work in order and three on others, for which it
	// waits. It also waits while the budget is full ([usftp.WithMaxInFlight]).
	StartWriteClose(p []byte, attrs usftp.NewAttrs) (wait func() (refused, err error))
	// ReadClose reads a file that should have exactly size bytes, which must fit one request (see
	// [Client.DataSizes]), checks that it ends there, asks for its attributes after that, and closes
	// it. memory is called at most once, when the data has arrived, and not for an empty file. If
	// the file has another size, errors.Is(err, ErrOtherSize) holds. after is nil if the server
	// tells no attributes. It takes one round trip on servers that work in order and two on others.
	ReadClose(size int, memory func() []byte) (after *usftp.FileStat, err error)
	// Waited returns for how long all transfers of the file had nothing to do but wait for the
	// server or the link. The rest of their time went into the caller's reader or writer.
	Waited() time.Duration
}

// OfFile returns the further methods of a file.
func OfFile(f *usftp.File) File { return hook.File(f).(File) }

// ErrOtherSize says that a file does not have the size that it was expected to have.
var ErrOtherSize = hook.ErrOtherSize

// Stripes is one transfer of a file's contents over several handles of it, on several connections:
// an SSH channel carries at most one window in a round trip. Handles may join while it runs.
type Stripes interface {
	// WriteToAt writes the file from its offset to its end to w, at the same offsets and in any
	// order, and moves the offset. w's WriteAt runs on the calling goroutine. It returns how many
	// bytes have arrived without a gap; after an error there may be more behind one.
	WriteToAt(w io.WriterAt) (int64, error)
	// ReadFromAt writes what r has, from the file's offset to r's end, to the file at the same
	// offsets, and moves the offset. r's ReadAt runs on the calling goroutine. It returns how many
	// bytes the server has acknowledged without a gap; after an error there may be more behind one.
	// Holes of a [SparseReaderAt] count as acknowledged.
	ReadFromAt(r io.ReaderAt) (int64, error)
	// ReadRange is [usftp.File.ReadRange]. What comes before its turn waits in memory, up to twice
	// what the link holds.
	ReadRange(off, length int64) io.ReadCloser

	// Join adds another handle: f is the same file, opened through another client, for writing
	// without os.O_CREATE and os.O_TRUNC. It must stay open until the transfer has ended. Join
	// returns false if it has ended already. If f's connection is lost the other handles take over.
	// The caller must make sure that f is the same file and that each handle sees what the others
	// write.
	Join(f *usftp.File) bool
	// Rest stops a handle that has joined from asking for more or, with false, lets it take part
	// again. So the caller can find out whether the handle adds to the rate: what is in flight comes
	// to its end, after which Idle returns true, and the other handles do the rest.
	Rest(f *usftp.File, rest bool)
	// Idle reports whether a handle rests and nothing is in flight on it.
	Idle(f *usftp.File) bool
	// Moved returns how many bytes have been acknowledged or have arrived so far, over all handles
	// and in any order.
	Moved() int64
	// Joined returns how many handles have joined.
	Joined() int
}

// NewStripes returns a transfer of a file, to which other handles may be added; the file's own takes
// part in any case.
func NewStripes(f *usftp.File) Stripes { return hook.Stripes(f).(Stripes) }

// SparseReaderAt is a source for [Stripes.ReadFromAt] that knows where it has holes. They are not
// sent; so the file must read as zeros from its offset on, as a new one does.
type SparseReaderAt interface {
	io.ReaderAt
	// Extent returns up to where the source is the same, data or a hole, from an offset on. The
	// source's last byte should not lie in a hole: it gives the file its size. Extent runs on the
	// goroutine that ReadAt does.
	Extent(off int64) (to int64, hole bool)
}
