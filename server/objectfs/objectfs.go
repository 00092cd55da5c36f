package objectfs

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// Options configure an FS. A nil *Options is valid, and so is the zero value of every field.
type Options struct {
	// Prefix is the beginning of the keys of all objects served. It ends in a slash, or is "" for the
	// whole bucket.
	Prefix string

	// State is shared by all servers of the bucket. The default is a new [MemoryState], for one FS in
	// one process.
	State State

	// Memory is shared by all FS of a process. The default is NewMemory(128 << 20).
	Memory *Memory

	// RefuseModes makes requests that set permissions or owners fail, since objects have neither.
	// Otherwise they have no effect: many clients set permissions with every file.
	RefuseModes bool
}

// FS serves a bucket, or the part of it below a prefix. It is safe for concurrent use.
type FS struct {
	bucket Bucket
	prefix string
	state  State
	memory *Memory
	refuse bool
	layout layout
	known  directories
	pause  time.Duration // before a lock is asked for once more

	sources sources
}

var (
	_ server.Opener         = (*FS)(nil)
	_ server.AtomicUploader = (*FS)(nil)
	_ server.Lister         = (*FS)(nil)
	_ server.Counter        = (*FS)(nil)
	_ server.Setstater      = (*FS)(nil)
	_ server.Renamer        = (*FS)(nil)
	_ server.PosixRenamer   = (*FS)(nil)
	_ server.Remover        = (*FS)(nil)
	_ server.Rmdirer        = (*FS)(nil)
	_ server.Mkdirer        = (*FS)(nil)
)

// New returns an FS that serves bucket; options may be nil.
func New(bucket Bucket, options *Options) *FS {
	if options == nil {
		options = &Options{}
	}
	f := &FS{bucket: bucket, prefix: options.Prefix, state: options.State, memory: options.Memory,
		refuse: options.RefuseModes, pause: 10 * time.Millisecond}
	if f.state == nil {
		f.state = &MemoryState{}
	}
	if f.memory == nil {
		f.memory = NewMemory(128 << 20)
	}
	f.layout = layout{first: min(standard.first, f.memory.longest), most: f.memory.longest}
	return f
}

// key returns the key of the object at a path. The key of the root is the prefix.
func (f *FS) key(name string) string { return f.prefix + strings.TrimPrefix(name, "/") }

// Errors that clients see.
var (
	errIsDirectory  = errors.New("is a directory")
	errNotEmpty     = errors.New("directory not empty")
	errNotDirectory = &server.StatusError{Code: wire.NoSuchFile, Message: "not a directory"}
	errLongName     = &server.StatusError{Code: wire.BadMessage,
		Message: "the path is longer than a key may be: 1024 bytes"}
	errModes = &server.StatusError{Code: wire.OpUnsupported,
		Message: "objects have no permissions and no owners"}
)

// grace is how long requests may run after their session has ended: files that the client has
// closed must still appear, and everything else must be cleaned up properly.
const grace = 30 * time.Second

// lasting returns a context that outlives the session by grace.
func lasting(session context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(session))
	stop := context.AfterFunc(session, func() { time.AfterFunc(grace, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// unwanted returns an error if attrs sets modes or owners and f refuses them.
func (f *FS) unwanted(attrs wire.Attrs) error {
	if f.refuse && attrs.Flags&(wire.AttrPermissions|wire.AttrUIDGID) != 0 {
		return errModes
	}
	return nil
}

// mtimeOf returns the modification time that attrs sets, or the zero time.
func mtimeOf(attrs wire.Attrs) time.Time {
	if !attrs.Has(wire.AttrACModTime) {
		return time.Time{}
	}
	return time.Unix(int64(attrs.MTime), 0)
}

// absent reports whether err means that the object, directory or upload does not exist.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
