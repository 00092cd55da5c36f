package sftptest

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/wire"
)

// Files is a scripted server's file system, in memory. Its methods are for tests, which examine and
// change it while clients use it; they may be called from several goroutines. Names are absolute,
// or relative to [Script.Home]. Methods that make an entry also make its parent directories, and
// replace whatever is in the way. Errors are *fs.PathError and wrap fs.ErrNotExist, fs.ErrExist or
// a *StatusError with the code a client would get.
type Files struct {
	mu   sync.Mutex
	root *node
	home string
}

// StatusError is a status code as an error.
type StatusError wire.Code

func (e *StatusError) Error() string { return wire.Code(*e).String() }

// Is makes errors.Is work with fs.ErrNotExist and fs.ErrExist.
func (e *StatusError) Is(target error) bool {
	switch wire.Code(*e) {
	case wire.NoSuchFile:
		return target == fs.ErrNotExist
	case wire.FileAlreadyExists:
		return target == fs.ErrExist
	}
	return false
}

func newFiles(home string) *Files {
	f := &Files{root: newNode(modeDir | 0o755), home: path.Join("/", home)}
	f.mkdirAll(f.home)
	return f
}

func fileError(op, name string, code wire.Code) error {
	if code == wire.OK {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: (*StatusError)(&code)}
}

// WriteFile creates or replaces a file. It copies the data. The file's mtime is an hour ago,
// because clients are careful with files that were only just written.
func (f *Files) WriteFile(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base := path.Split(f.absolute(name))
	n := newNode(modeRegular | 0o644)
	n.data = make([]byte, len(data))
	move(n.data, data)
	hourAgo := uint32(time.Now().Add(-time.Hour).Unix())
	n.atime, n.mtime = hourAgo, hourAgo
	f.mkdirAll(dir).children[base] = n
}

// ReadFile returns a copy of a file's contents.
func (f *Files) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, code := f.lookup(name, true)
	if code != wire.OK {
		return nil, fileError("read", name, code)
	}
	data := make([]byte, len(n.data))
	move(data, n.data)
	return data, nil
}

// Mkdir makes a directory.
func (f *Files) Mkdir(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mkdirAll(f.absolute(name))
}

// Symlink makes a symbolic link.
func (f *Files) Symlink(target, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base := path.Split(f.absolute(name))
	n := newNode(modeSymlink | 0o777)
	n.target = target
	f.mkdirAll(dir).children[base] = n
}

// Remove removes a name and everything below it, if it exists.
func (f *Files) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base := path.Split(f.absolute(name))
	if parent, code := f.lookup(dir, true); code == wire.OK && parent.isDir() {
		delete(parent.children, base)
	}
}

// Rename renames a name, in a directory that exists. It replaces a file or an empty directory
// there, as rename(2) does.
func (f *Files) Rename(oldName, newName string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fileError("rename", oldName, f.rename(f.absolute(oldName), f.absolute(newName), true, false))
}

// SetMode sets a file's type and mode, so a file can be turned into a device.
func (f *Files) SetMode(name string, mode fs.FileMode) error {
	return f.change("chmod", name, func(n *node) wire.Code {
		n.mode = wire.Permissions(mode)
		return wire.OK
	})
}

// SetModTime sets a file's modification and access times to t.
func (f *Files) SetModTime(name string, t time.Time) error { return f.SetTimes(name, t, t) }

// SetTimes sets a file's access and modification times.
func (f *Files) SetTimes(name string, atime, mtime time.Time) error {
	return f.change("chtimes", name, func(n *node) wire.Code {
		n.atime, n.mtime = uint32(atime.Unix()), uint32(mtime.Unix())
		return wire.OK
	})
}

// Resize truncates a file or extends it with zeros, as another process might while a client has it
// open.
func (f *Files) Resize(name string, size int64) error {
	return f.change("truncate", name, func(n *node) wire.Code { return n.resize(uint64(size)) })
}

// Append appends to a file.
func (f *Files) Append(name string, data []byte) error {
	return f.change("append", name, func(n *node) wire.Code { return n.writeAt(data, n.size()) })
}

func (f *Files) change(op, name string, change func(*node) wire.Code) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, code := f.lookup(name, true)
	if code == wire.OK {
		code = change(n)
	}
	return fileError(op, name, code)
}

// Lstat returns the attributes that LSTAT would return.
func (f *Files) Lstat(name string) (wire.Attrs, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, code := f.lookup(name, false)
	if code != wire.OK {
		return wire.Attrs{}, fileError("lstat", name, code)
	}
	return n.attrs(), nil
}

// Exists reports whether a name exists; dangling symbolic links do.
func (f *Files) Exists(name string) bool {
	_, err := f.Lstat(name)
	return err == nil
}

// List returns the absolute names of everything but the root, sorted; directories end in a slash,
// and symbolic links in " -> " and the target.
func (f *Files) List() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for base, child := range n.children {
			name := prefix + "/" + base
			switch {
			case child.isDir():
				names = append(names, name+"/")
				walk(name, child)
			case child.isSymlink():
				names = append(names, name+" -> "+child.target)
			default:
				names = append(names, name)
			}
		}
	}
	walk("", f.root)
	slices.Sort(names)
	return names
}

func (f *Files) absolute(name string) string {
	if !strings.HasPrefix(name, "/") {
		name = f.home + "/" + name
	}
	return path.Clean(name)
}

// mkdirAll makes the directories of an absolute path. It replaces any other file in the way: tests
// decide which files exist.
func (f *Files) mkdirAll(name string) *node {
	dir := f.root
	for element := range strings.SplitSeq(path.Clean(name), "/") {
		if element == "" {
			continue
		}
		child := dir.children[element]
		if child == nil || !child.isDir() {
			child = newNode(modeDir | 0o755)
			dir.children[element] = child
		}
		dir = child
	}
	return dir
}
