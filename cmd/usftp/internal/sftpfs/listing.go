//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
)

// names holds the known names of a directory. The node's lock guards it.
type names struct {
	listed  map[string]attrs // the server's list, with changes made here since
	asked   time.Time        // when the list was requested
	expired int              // how many names the list had, if it was dropped because it expired
	used    int              // lookups since it was requested
	changed time.Time        // when a name was last changed here
	reading int              // listings that are in progress
	asking  int              // listings and lookups in progress
	// changes made here while requests are in progress, whose answers may or may not include them
	since map[string]change
}

// knownNames returns the known names of a directory. The caller holds the lock.
func (n *node) knownNames() *names {
	if n.names == nil {
		n.names = new(names)
	}
	return n.names
}

// A change is the result of a change to a name.
type change struct {
	exists bool
	attrs  attrs // incomplete if not known
	at     time.Time
}

// ask begins a request about names, which includes a number of listings.
func (n *node) ask(lists int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.knownNames().asking++
	n.names.reading += lists
}

// answered ends a request begun by ask, and returns the changes made here meanwhile, or before. The
// caller holds the lock.
func (d *names) answered(lists int) (since map[string]change) {
	since = d.since
	d.reading -= lists
	if d.asking--; d.asking == 0 {
		d.since = nil
	}
	return since
}

// nameChanged reports whether a name was changed here after the start of a request about it, which
// is still in progress.
func (n *node) nameChanged(name string, asked time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, changed := n.names.since[name]
	return changed && !c.at.Before(asked)
}

// namesChanged reports whether any name was changed here since a time.
func (n *node) namesChanged(asked time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.knownNames().changed.Before(asked)
}

// maxRefreshed is the largest number of names in a directory whose list is kept fresh.
const maxRefreshed = 2000

// maxRemembered is the largest number of names remembered for one directory.
const maxRemembered = 200_000

// note records a change made here to a name.
func (f *FS) note(dir *node, name string, c change) {
	if path, ok := f.tree.path(dir); ok {
		f.prefetcher.changed(path)
	}
	dir.note(name, c)
}

func (n *node) note(name string, c change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.knownNames()
	d.changed = time.Now()
	c.at = d.changed
	if d.asking > 0 {
		if d.since == nil {
			d.since = make(map[string]change)
		}
		d.since[name] = c
	}
	d.apply(name, c)
}

func (d *names) apply(name string, c change) {
	switch {
	case d.listed == nil:
	case c.exists:
		d.listed[name] = c.attrs
	default:
		delete(d.listed, name)
	}
}

// noteChanged notes that the attributes of a name are no longer known.
func (f *FS) noteChanged(dir *node, name string) { f.note(dir, name, change{exists: true}) }

// empty notes that a directory was just made.
func (f *FS) empty(n *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f.setList(n, make(map[string]attrs), time.Now())
}

// setList sets the list of a directory, and has it dropped when it expires: a program may walk any
// number of directories, and the kernel remembers them long after. The caller holds the node's
// lock.
func (f *FS) setList(n *node, listed map[string]attrs, asked time.Time) {
	d := n.knownNames()
	d.listed, d.asked, d.expired, d.used = listed, asked, 0, 0
	time.AfterFunc(time.Until(asked.Add(f.options.Cache)), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if d.listed != nil && time.Since(d.asked) >= f.options.Cache { // else it was renewed
			d.listed, d.expired = nil, len(d.listed)
		}
	})
}

// dropList drops the list of a directory, and the lists that are on their way.
func (n *node) dropList() {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.knownNames()
	d.listed, d.asked = nil, time.Now()
}

// list returns the names in a directory: the known ones, or those that the server lists now, in its
// order.
func (f *FS) list(ctx context.Context, n *node) ([]fileEntry, error) {
	if entries := f.listKnown(n); entries != nil {
		return entries, nil
	}
	return f.readNames(ctx, n, 0)
}

// fileEntry is a name in a directory with its attributes.
type fileEntry struct {
	name  string
	attrs attrs
	asked time.Time
}

// listKnown returns the list if it is fresh, otherwise nil.
func (f *FS) listKnown(n *node) []fileEntry {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.knownNames()
	if !d.fresh(f.options.Cache) {
		return nil
	}
	entries := make([]fileEntry, 0, len(d.listed))
	for name, a := range d.listed {
		entries = append(entries, fileEntry{name, a, d.asked})
	}
	slices.SortFunc(entries, func(a, b fileEntry) int { return strings.Compare(a.name, b.name) })
	return entries
}

// readNames reads a directory. It gives up if it has more than most names, unless most is 0.
func (f *FS) readNames(ctx context.Context, n *node, most int) (entries []fileEntry, err error) {
	n.ask(1)
	var l *listing
	err = f.lookOrDrop(ctx, n, func(path string) (err error) {
		if l = f.prefetcher.take(ctx, path); l == nil {
			l, err = f.listPath(ctx, path, most)
		}
		return err
	}, func() {})
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.knownNames()
	since := d.answered(1)
	if err != nil {
		return nil, err
	}
	if l.asked.After(d.asked) && len(l.entries) <= maxRemembered {
		listed := make(map[string]attrs, len(l.entries))
		for i := range l.entries {
			listed[l.entries[i].name] = l.entries[i].attrs
		}
		f.setList(n, listed, l.asked)
		for name, c := range since {
			d.apply(name, c)
		}
	}
	return withChanges(l.entries, since), nil
}

// withChanges returns a list with changes of names applied. It keeps the order of the other names.
func withChanges(entries []fileEntry, since map[string]change) []fileEntry {
	if len(since) == 0 {
		return entries
	}
	now := make([]fileEntry, 0, len(entries)+len(since))
	for i := range entries {
		if _, changed := since[entries[i].name]; !changed {
			now = append(now, entries[i])
		}
	}
	for name, c := range since {
		if c.exists {
			now = append(now, fileEntry{name, c.attrs, c.at})
		}
	}
	return now
}

// maxEntries is the largest number of names in a directory that is listed at all. A broken server's
// listing may never end.
const maxEntries = 2_000_000

// listPath asks for the names in a directory, and gives up beyond most names; 0 means maxEntries.
func (f *FS) listPath(ctx context.Context, path string, most int) (*listing, error) {
	if most == 0 {
		most = maxEntries
	}
	var l *listing
	err := f.link.do(ctx, func(c *usftp.Client, _ bool) error {
		l = &listing{asked: time.Now()}
		for file, err := range c.Entries(path) {
			if err != nil {
				return err
			}
			a := attrsOf(file.FileStat())
			if f.options.FollowSymlinks && a.isLink() {
				a.complete = false // LOOKUP asks for its target
			}
			name := strings.Clone(file.BaseName()) // the base name would keep the whole path in memory
			if strings.HasPrefix(name, "\x00") {
				continue // see usftp.ErrNameCoding: no program can name it
			}
			if len(name) > maxName {
				return fmt.Errorf("the host lists a name of %d bytes", len(name))
			}
			l.entries = append(l.entries, fileEntry{name, a, l.asked})
			if len(l.entries) > most {
				return errTooMany
			}
		}
		return nil
	})
	return l, err
}

// expectBelow notes that a program has read a directory and may read those below it next.
// Directories with a known list are not prefetched.
func (f *FS) expectBelow(n *node, entries []fileEntry) {
	path, ok := f.tree.path(n)
	if !ok {
		return
	}
	unknown := entries[:0:0]
	for i := range entries {
		if e := &entries[i]; e.attrs.isDir() && !f.hasList(f.tree.child(n, e.name)) {
			unknown = append(unknown, *e)
		}
	}
	f.prefetcher.read(path, directoriesIn(path, unknown))
}

// hasList reports whether the list of a directory is fresh.
func (f *FS) hasList(n *node) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.knownNames().fresh(f.options.Cache)
}

// fresh reports whether the list may still be used.
func (d *names) fresh(cache time.Duration) bool {
	return d.listed != nil && time.Since(d.asked) < cache
}

// errTooMany says that a directory is too large to be listed for lookups.
var errTooMany = syscall.E2BIG

// lookInList answers a lookup from the list of a directory. known is false if the list has no
// answer.
func (f *FS) lookInList(n *node, name string) (a attrs, asked time.Time, exists, known bool) {
	n.mu.Lock()
	d := n.knownNames()
	if d.fresh(f.options.Cache) {
		a, exists = d.listed[name]
		asked, known = d.asked, !exists || a.complete
	}
	d.used++
	// Programs such as tar and git look up one name after the other, to see whether a file exists
	// before they make it. The list and the directory's attributes are kept fresh for them, so that
	// only the first lookup asks the host.
	refresh := d.reading == 0 && len(d.listed)+d.expired <= maxRefreshed && d.used > 2 &&
		time.Since(d.asked) > f.options.Cache/2
	n.mu.Unlock()
	if refresh {
		go func() {
			ctx, cancel := context.WithTimeout(f.ctx, f.options.Cache+f.options.Timeout)
			defer cancel()
			var renewing sync.WaitGroup
			defer renewing.Wait()
			renewing.Go(func() { f.renew(ctx, n) })
			entries, err := f.readNames(ctx, n, maxRefreshed)
			if err != nil {
				n.mu.Lock()
				defer n.mu.Unlock()
				d.used = -1000 // not again soon
				return
			}
			f.expectBelow(n, entries)
		}()
	}
	return a, asked, exists, known
}

// usePrefetched takes over a directory's prefetched list, and reports whether there is one.
func (f *FS) usePrefetched(ctx context.Context, dir *node) bool {
	path, ok := f.tree.path(dir)
	if !ok || !f.prefetcher.has(path) {
		return false
	}
	entries, err := f.readNames(ctx, dir, maxRefreshed)
	if err == nil {
		f.expectBelow(dir, entries)
	}
	return err == nil
}

func (f *FS) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string,
	out *fuse.EntryOut) fuse.Status {
	dir := f.tree.get(header.NodeId)
	if dir == nil {
		return fuse.Status(syscall.ESTALE)
	}
	if child := f.tree.child(dir, name); child != nil {
		if a, _, ok := f.known(child); ok {
			f.entry(dir, name, a, time.Time{}, out)
			return fuse.OK
		}
	}
	a, asked, exists, known := f.lookInList(dir, name)
	ctx := f.ctx
	if !known {
		var stop func()
		ctx, stop = f.request(cancel, header)
		defer stop()
		if f.usePrefetched(ctx, dir) {
			a, asked, exists, known = f.lookInList(dir, name)
		}
	}
	known = known && !(exists && f.tree.child(dir, name).differs(&a))
	switch {
	case known && exists:
		f.entry(dir, name, a, asked, out)
		return fuse.OK
	case known && len(name) > maxNewName:
		return fuse.Status(syscall.ENAMETOOLONG)
	case known:
		out.SetEntryTimeout(max(0, time.Until(asked.Add(f.options.Cache)))) // "does not exist"
		return fuse.OK
	}
	dir.ask(0)
	var err error
	late := true
	for range 3 { // while other programs keep changing it
		err = f.lookOnPath(ctx, dir, func(c *usftp.Client, path string) (err error) {
			asked = time.Now()
			a, err = f.lookOpen(ctx, c, f.tree.child(dir, name), join(path, name))
			return err
		})
		if late = dir.nameChanged(name, asked); !late {
			break
		}
	}
	status := statusOf(err)
	if status == fuse.ENOENT && !late {
		f.vanished(dir, name)
	}
	dir.mu.Lock()
	dir.names.answered(0)
	dir.mu.Unlock()
	refused := status == fuse.ENOENT || status == fuse.EINVAL ||
		errors.Is(err, usftp.ErrSSHFxFailure)
	switch {
	case status == fuse.OK:
		f.entry(dir, name, a, asked, out)
	case refused && len(name) > maxNewName:
		return fuse.Status(syscall.ENAMETOOLONG)
	case status == fuse.ENOENT && late:
		return status // the kernel does not keep this one
	case status == fuse.ENOENT:
		out.SetEntryTimeout(f.options.Cache)
	default:
		return status
	}
	return fuse.OK
}

const (
	// maxNewName is how long a new name may be. Servers answer a longer one with a mere "invalid".
	// Names that exist may be longer: those of Windows and macOS have 255 UTF-16 units.
	maxNewName = 255
	// maxName is FUSE_NAME_MAX: the kernel rejects a listing with a longer name.
	maxName = 1024
)

// tooLong reports whether a name that a program uses is too long for the host.
func (f *FS) tooLong(dir *node, name string) bool {
	return len(name) > maxNewName && f.tree.child(dir, name) == nil
}

// vanished notes that a name no longer exists.
func (f *FS) vanished(dir *node, name string) {
	f.note(dir, name, change{})
	if n := f.tree.child(dir, name); n != nil && n.openFile() == nil {
		f.tree.vanished(dir, name)
	}
}

func (f *FS) Forget(id, lookups uint64) { f.tree.forget(id, lookups) }

// A dirHandle is an open directory, with its list at the time of the first read.
type dirHandle struct {
	node *node

	mu      sync.Mutex
	entries []fileEntry
	loaded  time.Time // when the entries were read; zero if they were not
}

func (f *FS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := f.tree.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	f.tree.hold(n)
	out.Fh = f.dirs.add(&dirHandle{node: n})
	return fuse.OK
}

func (f *FS) ReleaseDir(in *fuse.ReleaseIn) {
	if d := f.dirs.take(in.Fh); d != nil {
		f.tree.release(d.node)
	}
}

// FsyncDir implements fuse.RawFileSystem. It has nothing to do: changes of names are on the host
// before they are answered.
func (f *FS) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

func (f *FS) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(cancel, in, func(d *dirHandle, entry fuse.DirEntry, _ *fileEntry) bool {
		return out.AddDirEntry(entry)
	})
}

// ReadDirPlus implements fuse.RawFileSystem. It gives the kernel the attributes along with the
// names.
func (f *FS) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn,
	out *fuse.DirEntryList) fuse.Status {
	return f.readDir(cancel, in, func(d *dirHandle, entry fuse.DirEntry, e *fileEntry) bool {
		plus := out.AddDirLookupEntry(entry)
		if plus == nil {
			return false
		}
		if e != nil && e.attrs.complete && time.Since(e.asked) < f.options.Cache &&
			!d.node.namesChanged(d.loaded) && !f.tree.child(d.node, e.name).differs(&e.attrs) {
			f.entry(d.node, e.name, e.attrs, e.asked, plus)
		}
		return true
	})
}

// readDir passes entries to add until add has no more room.
func (f *FS) readDir(cancel <-chan struct{}, in *fuse.ReadIn, add func(*dirHandle, fuse.DirEntry,
	*fileEntry) bool) fuse.Status {
	d := f.dirs.get(in.Fh)
	if d == nil {
		return fuse.EBADF
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loaded.IsZero() || in.Offset == 0 {
		entries, err := f.list(ctx, d.node)
		if err != nil {
			return statusOf(err)
		}
		d.entries, d.loaded = entries, time.Now()
		f.expectBelow(d.node, entries)
	}
	for i := in.Offset; i < uint64(len(d.entries))+2; i++ {
		entry := fuse.DirEntry{Off: i + 1}
		var e *fileEntry
		switch i {
		case 0:
			entry.Name, entry.Ino, entry.Mode = ".", d.node.ino, syscall.S_IFDIR
		case 1:
			entry.Name, entry.Ino, entry.Mode = "..", d.node.ino, syscall.S_IFDIR
		default:
			e = &d.entries[i-2]
			if f.isHidden(e.name) {
				continue
			}
			entry.Name, entry.Ino = e.name, f.tree.entryIno(d.node, e.name)
			if e.attrs.complete {
				entry.Mode = e.attrs.mode
			}
		}
		if !add(d, entry, e) {
			break
		}
	}
	return fuse.OK
}
