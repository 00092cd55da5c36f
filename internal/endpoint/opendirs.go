package endpoint

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// openDirs keeps open the directories being written to, up to a number that any process may have
// open.
type openDirs struct {
	top   *os.Root
	links dirLinks // by path in top, as the maps below
	mu    sync.Mutex
	open  map[string]*openDir
	moved map[string]bool // directories that had lost their names when they were evicted
	tick  int64
}

type openDir struct {
	*os.Root
	users int
	used  int64
	left  bool // closed by its last user
}

const (
	mostOpenDirs = 64

	// mostMoved limits the moved directories that are remembered: others may move any number.
	mostMoved = 1000
)

// use opens a directory, which stays open at least until release is called. No link in its path is
// followed, even if it leads elsewhere in top.
func (d *openDirs) use(name string) (root *os.Root, release func(), err error) {
	if name == "." {
		return d.top, func() {}, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o, err := d.hold(name)
	if err != nil {
		return nil, nil, err
	}
	o.users++
	return o.Root, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if o.users--; o.users == 0 && o.left {
			o.Close()
		}
	}, nil
}

// hold opens a directory from the one above. The caller holds the lock.
func (d *openDirs) hold(name string) (*openDir, error) {
	o := d.open[name]
	if o == nil {
		in := d.top
		if dir := path.Dir(name); dir != "." && d.links.of(name) == nil {
			above, err := d.hold(dir)
			if err != nil {
				return nil, err
			}
			above.users++ // so that it is not evicted
			defer func() { above.users-- }()
			in = above.Root
		}
		opened, err := d.openIn(in, name)
		if err != nil {
			return nil, err
		}
		d.evict()
		o = &openDir{Root: opened}
		d.open[name] = o
	}
	d.tick++
	o.used = d.tick
	return o, nil
}

// openIn opens a directory in another, or the directory that a link there stands for.
func (d *openDirs) openIn(in *os.Root, name string) (*os.Root, error) {
	link := d.links.of(name)
	if link == nil {
		return openUnfollowed(in, path.Base(name))
	}
	dir, err := openRoot(d.path(name))
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(opened, link.info) {
		dir.Close()
		return nil, cmp.Or(err, error(ErrMoved))
	}
	return dir, nil
}

// path returns the path of a name in top.
func (d *openDirs) path(name string) string { return filepath.Join(d.top.Name(), name) }

// openUnfollowed opens a directory in another, but not through a link. The slash is for a named
// pipe that has taken its place: without it OpenRoot would wait for a writer.
func openUnfollowed(in *os.Root, name string) (*os.Root, error) {
	dir, err := in.OpenRoot(name + "/")
	if err != nil {
		if listed, lookErr := in.Lstat(name); lookErr == nil {
			err = cmp.Or(notDir(listed), err)
		}
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil {
		var listed fs.FileInfo
		if listed, err = in.Lstat(name); err == nil && !os.SameFile(opened, listed) {
			err = ErrLinkInWay
		}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// isDir passes on the answer to a look, which fails if it is about anything but a directory.
func isDir(is fs.FileInfo, err error) (fs.FileInfo, error) {
	if err == nil {
		err = notDir(is)
	}
	return is, err
}

// notDir returns the error for an entry that is not a directory, or nil.
func notDir(is fs.FileInfo) error {
	switch {
	case is.Mode()&fs.ModeSymlink != 0:
		return ErrLinkInWay
	case !is.IsDir():
		return ErrNotDirectory
	}
	return nil
}

// evict closes the least recently used directories if too many are open. The caller holds the lock.
func (d *openDirs) evict() {
	for len(d.open) >= mostOpenDirs {
		oldest := ""
		for name, o := range d.open {
			if o.users == 0 && (oldest == "" || o.used < d.open[oldest].used) {
				oldest = name
			}
		}
		if oldest == "" {
			return
		}
		if len(d.moved) < mostMoved && d.movedNow(oldest) {
			d.moved[oldest] = true
		}
		d.open[oldest].Close()
		delete(d.open, oldest)
	}
}

// leave closes a directory in which nothing more is created. Attributes may still be set in it. It
// fails if the directory no longer has its name.
func (d *openDirs) leave(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	moved := d.moved[name] || d.movedNow(name)
	delete(d.moved, name)
	d.drop(name)
	if moved {
		return ErrWentAlong
	}
	return nil
}

// movedNow reports whether an open directory has lost its name to another entry, or to none. The
// caller holds the lock.
func (d *openDirs) movedNow(name string) bool {
	if name == "." {
		return moved(d.top, os.Stat, d.top.Name())
	}
	o := d.open[name]
	switch above := d.open[path.Dir(name)]; {
	case o == nil:
		return false
	case d.links.of(name) != nil:
		return moved(o.Root, os.Stat, d.path(name))
	case above != nil:
		return moved(o.Root, above.Lstat, path.Base(name))
	}
	return moved(o.Root, d.top.Lstat, name)
}

// drop closes a directory once nobody uses it. The caller holds the lock.
func (d *openDirs) drop(name string) {
	if o := d.open[name]; o != nil {
		delete(d.open, name)
		if o.left = true; o.users == 0 {
			o.Close()
		}
	}
}

// forget closes a directory and all below it, whose names may soon be other directories'.
func (d *openDirs) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(name)
	for below := range d.open {
		if strings.HasPrefix(below, name+"/") {
			d.drop(below)
		}
	}
}

func (d *openDirs) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, o := range d.open {
		o.Close()
		delete(d.open, name)
	}
}
