// Package private gives this module's own packages abilities of [usftp.Client] and [usftp.File]
// that other programs have no use for: transferring one file over several connections, small files
// in one round trip, and known properties of a server.
package private

import (
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private/hook"
	"github.com/usftp/usftp/wire"
)

// Client has further methods of a [usftp.Client].
type Client interface {
	// WorksInOrder reports whether the server is known to carry out requests one at a time, in the
	// order in which they arrived, as OpenSSH's server does. Requests that depend on one another
	// may then be sent at once.
	WorksInOrder() bool
	// ReadsOnce reports whether the server is known to count the reads of a file, so that no file
	// should be read without need.
	ReadsOnce() bool
	// LosesWrites reports whether the server may acknowledge a WRITE of which it has stored only the
	// beginning, since the disk had no room for the rest, and may be asked whether it has.
	LosesWrites() bool
	// Touches reports whether the server is known to report the present time as the time of cached
	// files.
	Touches() bool
	// EmptiesToCut reports whether the server is known to lose what a file has when it is truncated
	// to a size, which then reads as zeros.
	EmptiesToCut() bool
	// SetsByName reports whether the server is known to carry out FSETSTAT and FSTAT on the name by
	// which the file was opened, whichever file has it by then.
	SetsByName() bool
	// StatsByName reports whether FSTAT describes whichever file has the name by which the file was
	// opened: where SetsByName, and where the server was found to have no FSTAT.
	StatsByName() bool
	// LastTime returns the last time, in seconds since 1970, that a file on the host may have.
	LastTime() int64
	// StartSmall makes transfers start with one request in flight, or at least 256 KiB, and keep no
	// more in flight than twice the link's capacity. It is for short links: sshd spends much time
	// on growing its buffers if it receives faster than its sftp-server takes.
	StartSmall()
	// Beneath returns a view of the client that follows no symbolic link beneath a directory,
	// whatever becomes of the directories there meanwhile. above is the prefix of all paths in that
	// directory: it ends in a slash, or is "" for the directory where relative paths start. There,
	// a link is not followed even as a path's last element; other paths are treated as usual. ok is
	// false, and the view follows links, if the server cannot do that: usftp's own can.
	Beneath(above string) (view *usftp.Client, ok bool)
	// Alike returns a view of another client that follows links where this one does.
	Alike(other *usftp.Client) *usftp.Client
	// KnowsLinks reports whether the server is known to follow no symbolic link in RENAME and
	// LSTAT, and to answer READLINK with the text of the link. On other servers the following
	// methods send more requests.
	KnowsLinks() bool
	// ResolvesLinks reports whether the server is known to answer READLINK with the path that a
	// link leads to.
	ResolvesLinks() bool
	// LinksFromLogin reports whether the server is known to resolve the text of a new link, so that
	// Symlink gives it an absolute path.
	LinksFromLogin() bool
	// OnWindows reports whether the server is known to hand names to Windows unchanged.
	OnWindows() bool
	// Find is like Stat, but falls back on other answers if the server refuses STAT: for a
	// directory these may say no more than that it is one. It takes one round trip, and more after
	// a refusal. If it fails, Untold reports whether anything may exist there.
	Find(name string) (fs.FileInfo, error)
	// Look is like Lstat, but follows no link on any server, and falls back like Find; for a link
	// it may know no more than that it is one. It takes one round trip.
	Look(name string) (fs.FileInfo, error)
	// StartLook starts Look without waiting for the answer; wait does.
	StartLook(name string) (wait func() (fs.FileInfo, error))
	// Move is like Rename, but follows no link in the last element of either name, on any server.
	// With replace it acts as PosixRename if the server has that; otherwise it replaces nothing but
	// links.
	Move(oldName, newName string, replace bool) error
	// ReplaceByLink makes a symbolic link with this text, in place of a file or a link if one
	// exists. It may use the other two names, which are in the same directory; if it fails, the
	// error names any leftover under one of them.
	ReplaceByLink(text, name, temporary, aside string) error
	// LinksTo reports whether a link means want. have is READLINK's answer, which some servers make
	// absolute.
	LinksTo(name, have, want string) bool
	// KeepsUploads reports whether on the server a new file appears when it is closed, and not if
	// it is abandoned; see docs/uploads.md.
	KeepsUploads() bool
	// Upload describes the upload that was abandoned or is under way, if there is no file of this
	// name. Lstat and Look describe such an upload, too, as if it were a file.
	Upload(name string) (fs.FileInfo, error)
	// OneHandle reports whether one file or directory can be open at a time, since the server gives
	// one handle to several (see [usftp.ErrSharedHandle]).
	OneHandle() bool
	// OpenHandles returns how many files and directories are open on the connection.
	OpenHandles() int
	// Heard returns when the server last gave a sign of life: sent anything or answered a
	// keepalive. It is exact to an eighth of the stall timeout, as long as requests are in flight.
	Heard() time.Time
	// Overdue returns since when an answer of the server has been overdue, and when the connection
	// will be given up for that; both are zero if none is overdue.
	Overdue() (since, end time.Time)
	// PutsFiles and GetsFiles report whether the server takes and sends several small files in one
	// request; see docs/small-files.md.
	PutsFiles() bool
	GetsFiles() bool
	// StartPut writes a file of at most wire.LargestFile bytes under a temporary name in the same
	// directory, gives it its attributes, with flush waits until it is on the disk, and renames it.
	// Files that are put at the same time share requests. The caller may reuse p after StartPut
	// returns. wait, which must be called, returns the result. If the server refuses any step,
	// nothing of the file is left. If the connection is lost, the temporary file may be left.
	StartPut(name, temporary string, p []byte, perm fs.FileMode, attrs usftp.NewAttrs,
		flush bool) (wait func() error)
	// GetFile reads a regular file that should have exactly size bytes, at most wire.LargestFile,
	// and asks for its attributes after that. It calls memory at most once, when the data has
	// arrived. Files that are read at the same time share requests.
	GetFile(name string, size int, memory func() []byte) (after *usftp.FileStat, err error)
	// DataSizes returns how many bytes one READ and one WRITE may carry. It waits for the server's
	// limits if they have not arrived yet.
	DataSizes() (read, write int, err error)
}

// OfClient returns the further methods of a client.
func OfClient(c *usftp.Client) Client { return hook.Client(c).(Client) }

// FewFiles is how many files a host may be taken to let be open at once that does not say it.
const FewFiles = 16

// FilesAtOnce returns how many files may be open on a host at once, at most this number: one where
// it counts the reads of a file or gives one handle to several, and few unless it says how many it
// allows or is known to allow a thousand. That takes no round trip.
func FilesAtOnce(c *usftp.Client, most int) int {
	own := OfClient(c)
	_, says := c.HasExtension(wire.ExtLimits)
	switch {
	case own.OneHandle() || own.ReadsOnce():
		return 1
	case says || own.WorksInOrder():
		return most
	}
	return min(most, FewFiles)
}

// WithFirstRequest makes the client call start before the server has answered INIT, with a client
// whose requests follow INIT at once, so that the first answers come a round trip earlier. start
// must not block; to wait for an answer it starts a goroutine. The client it gets does not know the
// server's extensions yet and must only open files and stat paths. start is called only for
// OpenSSH's server and for package server (see [usftp.WithServerVersion]): others may need INIT
// alone first.
func WithFirstRequest(start func(*usftp.Client)) usftp.ClientOption {
	return hook.FirstRequest(func(c any) { start(c.(*usftp.Client)) }).(usftp.ClientOption)
}

// WithOneHandle makes the clients of a host share the finding that each can have only one file or
// directory open at a time, and log it with the host's name.
func WithOneHandle(host string, shared *atomic.Bool) usftp.ClientOption {
	return hook.OneHandle(host, shared).(usftp.ClientOption)
}

// File has further methods of a [usftp.File].
type File interface {
	// StartWriteClose writes p, which must fit one request (see [Client.DataSizes]), at the
	// beginning of a file that is open for writing, sets its attributes and closes it, even if one
	// of these fails. The caller may reuse p after StartWriteClose returns. wait, which must be
	// called, returns the result; refused says why the attributes could not be set, although the
	// contents may be complete.
	StartWriteClose(p []byte, attrs usftp.NewAttrs) (wait func() (refused, err error))
	// ReadClose reads a file that should have exactly size bytes, which must fit one request (see
	// [Client.DataSizes]), checks that it ends there, asks for its attributes after that, and
	// closes it. It calls memory at most once, when the data has arrived, and not for an empty
	// file. If the file has another size, errors.Is(err, ErrOtherSize) holds. after is nil if the
	// server sends no attributes. ReadClose takes one round trip on servers that work in order and
	// two on others. On the former it calls closing before it waits: the server closes the file
	// before it carries out requests that are sent from then on.
	ReadClose(size int, memory func() []byte, closing func()) (after *usftp.FileStat, err error)
	// StartStored starts to ask whether the server has stored all of a file that was written to this
	// size, unless the server is known to tell if it has not. prove, to be called once the file is
	// closed, returns ErrNotStored if the file ends too early.
	StartStored(size int64) (prove func() error)
	// HandleLost reports whether the file's handle was given up, since the host gave one to several
	// open files: the file has to be opened again.
	HandleLost() bool
	// Waited returns how long all transfers of the file did nothing but wait for the server or the
	// link. They spent the rest of their time in the caller's reader or writer.
	Waited() time.Duration
	// Answers returns how many DATA replies have arrived on the file's own handle. The data of one
	// reply was read at one moment.
	Answers() int64
}

// OfFile returns the further methods of a file.
func OfFile(f *usftp.File) File { return hook.File(f).(File) }

// Untold reports whether a failed question about a path leaves open whether anything exists there:
// the server refused to answer, or answered FAILURE, as some do for names that do not exist.
func Untold(err error) bool { return hook.Untold(err) }

// ErrOtherSize means that a file does not have the expected size.
var ErrOtherSize = hook.ErrOtherSize

// ErrNotStored means that the server has lost a part of what it acknowledged.
var ErrNotStored = hook.ErrNotStored

// Stripes is one transfer of a file's contents through several handles on several connections: an
// SSH channel carries at most one window per round trip. Handles may join while it runs.
type Stripes interface {
	// WriteToAt writes the file from its offset to its end to w, at the same offsets and in any
	// order, and advances the offset. It calls w.WriteAt on the calling goroutine. It returns how
	// many bytes have arrived without a gap; after an error there may be more beyond one.
	WriteToAt(w io.WriterAt) (int64, error)
	// ReadFromAt writes the data of r, from the file's offset to r's end, to the file at the same
	// offsets, and advances the offset. It calls r.ReadAt on the calling goroutine. It returns how
	// many bytes the server has acknowledged without a gap; after an error there may be more beyond
	// one. Holes of a [SparseReaderAt] count as acknowledged.
	ReadFromAt(r io.ReaderAt) (int64, error)
	// ReadRange is like [usftp.File.ReadRange]. Data that arrives early waits in memory, up to
	// twice the link's capacity.
	ReadRange(off, length int64) io.ReadCloser

	// Join adds another handle f of the same file, opened through another client for writing,
	// without os.O_CREATE and os.O_TRUNC. It must stay open until the transfer has ended. Join
	// returns false if the transfer has ended already. If f's connection is lost, the other handles
	// take over. The caller must make sure that f is the same file and that each handle sees the
	// others' writes.
	Join(f *usftp.File) bool
	// Rest stops a handle that has joined from requesting more or, with false, lets it take part
	// again. This is how the caller can find out whether the handle adds to the rate: requests in
	// flight complete, after which Idle returns true, and the other handles do the rest.
	Rest(f *usftp.File, rest bool)
	// Idle reports whether a handle rests with nothing in flight.
	Idle(f *usftp.File) bool
	// Moved returns how many bytes have arrived or been acknowledged so far, over all handles and
	// in any order.
	Moved() int64
	// Joined returns how many handles have joined.
	Joined() int
}

// NewStripes returns a transfer of a file, to which other handles may be added. The file's own
// handle always takes part.
func NewStripes(f *usftp.File) Stripes { return hook.Stripes(f).(Stripes) }

// SparseReaderAt is a source for [Stripes.ReadFromAt] that knows where it has holes. Holes are not
// sent, so the file must read as zeros from its offset on, as a new one does.
type SparseReaderAt interface {
	io.ReaderAt
	// Extent returns the end of the data or hole at off. The source's last byte should not be in a
	// hole, because it gives the file its size. Extent is called on the same goroutine as ReadAt.
	Extent(off int64) (to int64, hole bool)
}
