//go:build linux || darwin

package sftpfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
)

// Options say how a directory is mounted.
type Options struct {
	Root     string        // the directory on the host
	Timeout  time.Duration // how long calls wait while the connection is down
	Cache    time.Duration // how long names and attributes stay valid
	Buffer   int64         // limit for bytes of writes that are not on the host yet
	ReadOnly bool

	MapUser    bool    // show the host user's files as the local user's
	MapIfKnown bool    // the same, if the host reports who owns the user's home
	UID, GID   *uint32 // override the owners that the host sends
	Umask      *uint32 // override the permissions: all bits that this umask leaves

	FollowSymlinks    bool // show links as the files that they point to
	FreeSymlinks      bool // pass on links that lead out of the mount
	TransformSymlinks bool // make absolute links relative

	RescueDir string // for data that could not be written; if "", it is lost
	HostName  string
	Logger    *slog.Logger
}

// FS is a mounted directory.
type FS struct {
	fuse.RawFileSystem // answers ENOSYS for everything that FS does not implement

	options    Options
	ctx        context.Context
	cancel     context.CancelCauseFunc
	link       *link
	tree       *tree
	ids        ids
	roundTrip  time.Duration // a round trip to the host
	hidden     string        // prefix of the names of files that were removed while open
	clockSkew  atomic.Int64  // by how much the host's clock is ahead of ours, in nanoseconds
	quirks     quirks.Quirks // NoTimes, NoModes and NoAppend
	plainLinks sync.Once     // told that links keep their times
	budget     *budget       // of writes that are not on the host yet
	blocks     blocks
	reading    readMemory
	prefetcher *prefetcher
	dirs       table[dirHandle]
	files      table[handle]
	calls      atomic.Int64   // of the kernel, under way
	work       sync.WaitGroup // background work after a call was answered

	server kernel // nil before Init

	mu    sync.Mutex
	dirty map[*file]bool // files with data that is not on the host
}

// New returns a file system of a directory on the host, which must exist. It reconnects until
// Close.
func New(ctx context.Context, host pool.Host, options Options) (*FS, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	f := &FS{RawFileSystem: fuse.NewDefaultRawFileSystem(), options: options,
		hidden: hiddenPrefix + rand.Text()[:8],
		budget: newBudget(options.Buffer), dirty: make(map[*file]bool)}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.link = newLink(f.ctx, host, options.Timeout, options.Logger)
	f.link.onUp = f.resume
	f.prefetcher = newPrefetcher(f.ctx, options.Cache,
		func(ctx context.Context, path string) (*listing,
			error) {
			return f.listPath(ctx, path, maxNamesInList)
		})
	if err := f.setUp(ctx); err != nil {
		f.cancel(nil)
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("the host has no such directory")
		}
		return nil, err
	}
	f.work.Go(func() { f.link.keep(f.ctx) })
	return f, nil
}

// setUp checks the directory and identifies the host's user.
func (f *FS) setUp(ctx context.Context) error {
	c := f.link.client.WithContext(ctx)
	root, err := c.RealPath(f.options.Root)
	if private.Untold(err) { // the host takes paths relative to the login directory
		root, err = path.Clean(f.options.Root), nil
	}
	if err != nil {
		return err
	}
	asked := time.Now()
	info, err := c.Stat(root)
	f.roundTrip = time.Since(asked)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", root)
	}
	f.tree = newTree(root)
	f.tree.root.learnAttrs(attrsOfInfo(info), asked)
	f.ids = ids{uid: f.options.UID, gid: f.options.GID}
	if !f.options.MapUser && !f.options.MapIfKnown {
		return nil
	}
	home, err := c.Stat(".")
	if !f.options.MapUser && endpoint.Refused(err) {
		return nil // the home may be missing or unreadable
	}
	if err != nil {
		return err
	}
	stat := home.Sys().(*usftp.FileStat)
	if !stat.HasOwner() {
		if !f.options.MapUser {
			return nil
		}
		return errors.New("the host does not report the owners of files: give -o uid=N,gid=N instead of idmap=user")
	}
	f.ids.user, f.ids.remoteUID, f.ids.remoteGID = true, stat.UID, stat.GID
	f.ids.localUID, f.ids.localGID = uint32(os.Getuid()), uint32(os.Getgid())
	return nil
}

// resume continues the writes that were under way when the connection was lost.
func (f *FS) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.dirty {
		f.work.Go(func() { file.push(f.ctx, true) })
	}
}

// Close writes the data that is not on the host yet, for as long as calls may wait, removes the
// files that programs have removed, and stops everything. Call it after unmounting the file system.
func (f *FS) Close() error {
	f.mu.Lock()
	files := maps.Clone(f.dirty)
	f.mu.Unlock()
	for _, h := range f.files.all() { // attributes may remain to be set
		files[h.file] = true
	}
	var failed error
	var mu sync.Mutex
	var group sync.WaitGroup
	for file := range files {
		group.Go(func() {
			if err := file.finish(f.ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	group.Wait()
	if f.link.isUp() { // else flushing has waited for it
		for _, n := range f.tree.hidden() {
			group.Go(func() { f.removeHidden(n) })
		}
		group.Wait()
	}
	f.cancel(usftp.ErrClosed)
	f.work.Wait()
	return failed
}

func (f *FS) String() string { return "usftp" }

func (f *FS) StatFs(cancel <-chan struct{}, header *fuse.InHeader,
	out *fuse.StatfsOut) fuse.Status {
	n := f.tree.get(header.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	ctx, stop := f.request(cancel, header)
	defer stop()
	var stat *usftp.StatVFS
	err := f.lookOnPath(ctx, n, func(c *usftp.Client, path string) (err error) {
		stat, err = c.StatVFS(path)
		return err
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported), endpoint.Refused(err) && !lost(err):
		// Claim much space rather than none: programs may ask before they write.
		const block, blocks = 4096, 1 << 31
		*out = fuse.StatfsOut{Blocks: blocks, Bfree: blocks, Bavail: blocks, Files: blocks,
			Ffree: blocks, Bsize: block, Frsize: block, NameLen: maxNewName}
		return fuse.OK
	case err != nil:
		return statusOf(err)
	}
	// Programs divide by these, and the answer has 32 bits for each.
	size := func(n uint64) uint32 { return uint32(min(max(n, 1), math.MaxUint32)) }
	*out = fuse.StatfsOut{Blocks: stat.Blocks, Bfree: stat.Bfree, Bavail: stat.Bavail,
		Files: stat.Files, Ffree: stat.Ffree, Bsize: size(stat.Bsize), Frsize: size(stat.Frsize),
		NameLen: uint32(stat.Namemax)}
	return fuse.OK
}

// A table numbers the files or directories that the kernel has open.
type table[T any] struct {
	mu    sync.RWMutex
	last  uint64
	items map[uint64]*T
}

func (t *table[T]) add(item *T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.items == nil {
		t.items = make(map[uint64]*T)
	}
	t.last++
	t.items[t.last] = item
	return t.last
}

func (t *table[T]) get(id uint64) *T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.items[id]
}

// all returns the open items.
func (t *table[T]) all() []*T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.items))
}

func (t *table[T]) take(id uint64) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	item := t.items[id]
	delete(t.items, id)
	return item
}
