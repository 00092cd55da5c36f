//go:build linux || darwin

package sftpfs

import (
	"context"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
)

// names is what is known of the names in a directory. The node's lock guards it.
type names struct {
	listed  map[string]attrs // all names, as the server listed them and as was changed here since
	asked   time.Time        // when the list was asked for
	used    int              // lookups that asked the server, or were answered, since then
	reading int              // lists that are on their way
	// what was changed here while a list was on its way, which it may show or not
	since map[string]change
}

// A change is what became of a name.
type change struct {
	exists bool
	attrs  attrs // not complete if they are not known
}

// mostRefreshed is how many names a directory may have for its list to be kept fresh.
const mostRefreshed = 2000

// mostNames is how many names of one directory are remembered.
const mostNames = 200_000

// note says what became of a name by a change made here.
func (n *node) note(name string, c change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &n.names
	if d.reading > 0 {
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

// noteChanged says that a name's attributes are not known any more.
func (n *node) noteChanged(name string) { n.note(name, change{exists: true}) }

// empty says that a directory was just made.
func (n *node) empty() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names.listed, n.names.asked, n.names.used = make(map[string]attrs), time.Now(), 0
}

// list returns the names in a directory in the order of the server, or those that are known.
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

// listKnown returns the list if it is fresh.
func (f *FS) listKnown(n *node) []fileEntry {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &n.names
	if d.listed == nil || time.Since(d.asked) >= f.options.Cache {
		return nil
	}
	entries := make([]fileEntry, 0, len(d.listed))
	for name, a := range d.listed {
		entries = append(entries, fileEntry{name, a, d.asked})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].name < entries[j].name })
	return entries
}

// readNames reads a directory, and gives up beyond a number of names if most is not 0.
func (f *FS) readNames(ctx context.Context, n *node, most int) (entries []fileEntry, err error) {
	n.mu.Lock()
	n.names.reading++
	n.mu.Unlock()
	asked, listed := time.Now(), map[string]attrs(nil)
	err = f.onPath(n, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) error {
			asked, entries, listed = time.Now(), nil, make(map[string]attrs)
			for file, err := range c.Entries(path) {
				if err != nil {
					return err
				}
				a := attrsOf(file.FileStat())
				if f.options.FollowSymlinks && a.isLink() {
					a.complete = false // LOOKUP asks where it leads
				}
				name := file.BaseName()
				listed[name] = a
				entries = append(entries, fileEntry{name, a, asked})
				if most > 0 && len(entries) > most {
					return errTooMany
				}
			}
			return nil
		})
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	d := &n.names
	d.reading--
	since := d.since
	if d.reading == 0 {
		d.since = nil
	}
	if err != nil {
		return nil, err
	}
	if asked.After(d.asked) && len(listed) <= mostNames {
		d.listed, d.asked, d.used = listed, asked, 0
		for name, c := range since {
			d.apply(name, c)
		}
	}
	return entries, nil
}

// errTooMany says that a directory is too large to be listed for the sake of lookups.
var errTooMany = syscall.E2BIG

// lookInList answers a lookup from the list of a directory. known is false if it does not say.
func (f *FS) lookInList(n *node, name string) (a attrs, asked time.Time, exists, known bool) {
	n.mu.Lock()
	d := &n.names
	age := time.Since(d.asked)
	if d.listed != nil && age < f.options.Cache {
		a, exists = d.listed[name]
		asked, known = d.asked, !exists || a.complete
	}
	d.used++
	// Where names are looked up one after the other, such as by tar and git, which look whether
	// there is such a file before they make it, the list is kept fresh, so that each answer but the
	// first is here already.
	refresh := d.reading == 0 && len(d.listed) <= mostRefreshed && d.used > 2 &&
		age > f.options.Cache/2
	n.mu.Unlock()
	if refresh {
		go func() {
			ctx, cancel := context.WithTimeout(f.ctx, f.options.Cache+f.options.Timeout)
			defer cancel()
			if _, err := f.readNames(ctx, n, mostRefreshed); err != nil {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.names.used = -1000 // not again soon
			}
		}()
	}
	return a, asked, exists, known
}

// Lookup implements fuse.RawFileSystem.
func (f *FS) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir := f.tree.get(header.NodeId)
	if dir == nil {
		return fuse.Status(syscall.ESTALE)
	}
	if len(name) > mostName {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	if child := f.tree.child(dir, name); child != nil {
		if a, _, ok := f.known(child); ok {
			f.entry(dir, name, a, time.Time{}, out)
			return fuse.OK
		}
	}
	a, asked, exists, known := f.lookInList(dir, name)
	switch {
	case known && exists:
		f.entry(dir, name, a, asked, out)
		return fuse.OK
	case known:
		out.SetEntryTimeout(max(0, time.Until(asked.Add(f.options.Cache)))) // a name that is not there
		return fuse.OK
	}
	ctx, stop := f.request(cancel, header)
	defer stop()
	err := f.onPath(dir, func(path string) error {
		return f.link.do(ctx, func(c *usftp.Client, _ bool) (err error) {
			asked = time.Now()
			a, err = f.look(c, join(path, name))
			return err
		})
	})
	if status := statusOf(err); status == fuse.ENOENT {
		f.vanished(dir, name)
		out.SetEntryTimeout(f.options.Cache)
		return fuse.OK
	} else if status != fuse.OK {
		return status
	}
	f.entry(dir, name, a, asked, out)
	return fuse.OK
}

// mostName is how long a name may be. Servers say of a longer one that it is invalid.
const mostName = 255

// vanished says that a name is not there any more.
func (f *FS) vanished(dir *node, name string) {
	dir.note(name, change{})
	if n := f.tree.child(dir, name); n != nil && f.fileOf(n) == nil {
		f.tree.unlinked(dir, name)
	}
}

// Forget implements fuse.RawFileSystem.
func (f *FS) Forget(id, lookups uint64) { f.tree.forget(id, lookups) }

// A dirHandle is an open directory: the list as it was when it was first read.
type dirHandle struct {
	node *node

	mu      sync.Mutex
	entries []fileEntry
	loaded  bool
}

// OpenDir implements fuse.RawFileSystem.
func (f *FS) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := f.tree.get(in.NodeId)
	if n == nil {
		return fuse.Status(syscall.ESTALE)
	}
	f.tree.hold(n)
	out.Fh = f.dirs.add(&dirHandle{node: n})
	return fuse.OK
}

// ReleaseDir implements fuse.RawFileSystem.
func (f *FS) ReleaseDir(in *fuse.ReleaseIn) {
	if d := f.dirs.take(in.Fh); d != nil {
		f.tree.let(d.node)
	}
}

// FsyncDir implements fuse.RawFileSystem. Changes of names are answered when they are made.
func (f *FS) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// ReadDir implements fuse.RawFileSystem.
func (f *FS) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(cancel, in, func(d *dirHandle, entry fuse.DirEntry, _ *fileEntry) bool {
		return out.AddDirEntry(entry)
	})
}

// ReadDirPlus implements fuse.RawFileSystem. The kernel gets the attributes with the names.
func (f *FS) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return f.readDir(cancel, in, func(d *dirHandle, entry fuse.DirEntry, e *fileEntry) bool {
		plus := out.AddDirLookupEntry(entry)
		if plus == nil {
			return false
		}
		if e != nil && e.attrs.complete && time.Since(e.asked) < f.options.Cache {
			f.entry(d.node, e.name, e.attrs, e.asked, plus)
		}
		return true
	})
}

// readDir passes entries to add until that has no room.
func (f *FS) readDir(cancel <-chan struct{}, in *fuse.ReadIn, add func(*dirHandle, fuse.DirEntry, *fileEntry) bool) fuse.Status {
	d := f.dirs.get(in.Fh)
	if d == nil {
		return fuse.EBADF
	}
	ctx, stop := f.request(cancel, &in.InHeader)
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.loaded || in.Offset == 0 {
		entries, err := f.list(ctx, d.node)
		if err != nil {
			return statusOf(err)
		}
		d.entries, d.loaded = entries, true
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
			if f.isHidden(d.node, e.name) {
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
