package usftp

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/usftp/usftp/wire"
)

// FS is a directory of a server as a file system of package io/fs: an [fs.FS], [fs.ReadDirFS],
// [fs.StatFS], [fs.ReadFileFS], [fs.SubFS], [fs.GlobFS] and [fs.ReadLinkFS]. Like [os.DirFS] it
// follows symbolic links that lead out of the directory, if the server does. Calls of an FS and of
// its files end with the context of the client's view that made it, see [Client.WithContext].
//
// Its files are [fs.ReadDirFile], [io.ReaderAt], [io.Seeker] and [io.WriterTo], so
// http.FileServerFS serves ranges from it. Opening one takes one round trip.
type FS struct {
	client *Client
	prefix string // "" or ends in a slash
}

// FS returns the directory where relative paths start as a file system. See [Client.DirFS] for
// others.
func (c *Client) FS() *FS { return &FS{client: c} }

// DirFS returns a directory as a file system, like [os.DirFS]. It sends no request.
func (c *Client) DirFS(dir string) *FS { return &FS{client: c, prefix: listPrefix(dir)} }

// full returns the path on the server for a name of the file system.
func (f *FS) full(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name != "." {
		return f.prefix + name, nil
	}
	switch f.prefix {
	case "":
		return ".", nil
	case "/":
		return "/", nil
	}
	return strings.TrimSuffix(f.prefix, "/"), nil
}

// named replaces the name in an error by the one the caller used.
func named(err error, op, name string) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: op, Path: name, Err: inner.Err}
	}
	return err
}

// Open opens a file or directory. It asks for attributes at the same time to tell the two apart. It
// does not wait for the writer of a named pipe; see [Client.OpenRead].
func (f *FS) Open(name string) (fs.File, error) {
	full, err := f.full("open", name)
	if err != nil {
		return nil, err
	}
	file, asked, err := f.client.openRead(full)
	stat, statErr := asked.Wait()
	if statErr != nil || stat.FileMode().IsDir() {
		if err == nil {
			file.Close()
		}
		if statErr != nil {
			return nil, named(statErr, "open", name)
		}
		return &fsDir{stat: stat, name: name, list: f.client.list(full)}, nil
	}
	if err != nil {
		return nil, named(err, "open", name)
	}
	return &fsFile{File: file, name: name, fresh: fileInfo{path.Base(name), stat}}, nil
}

// fsFile is an open file of an FS.
type fsFile struct {
	*File
	name string
	mu   sync.Mutex
	// fresh are the attributes received when the file was opened, for the first call of Stat, which
	// usually follows at once.
	fresh fs.FileInfo
}

func (f *fsFile) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	fresh := f.fresh
	f.fresh = nil
	f.mu.Unlock()
	if fresh != nil && f.IsOpen() {
		return fresh, nil
	}
	if _, err := f.opened("stat", 0); err != nil {
		return nil, named(err, "stat", f.name)
	}
	stat, err := run(f.ctx, f.statOperation())
	if err != nil {
		return nil, named(err, "stat", f.name)
	}
	return fileInfo{path.Base(f.name), stat}, nil
}

// fsDir is an open directory of an FS. It is opened on the server when its first entry is read.
type fsDir struct {
	stat   *FileStat
	name   string
	mu     sync.Mutex
	list   *listing
	closed bool
}

func (d *fsDir) Stat() (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &fs.PathError{Op: "stat", Path: d.name, Err: fs.ErrClosed}
	}
	return fileInfo{path.Base(d.name), d.stat}, nil
}

func (d *fsDir) Read([]byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := errors.New("is a directory")
	if d.closed {
		err = fs.ErrClosed
	}
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: err}
}

func (d *fsDir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &fs.PathError{Op: "close", Path: d.name, Err: fs.ErrClosed}
	}
	d.closed = true
	d.list.close()
	return nil
}

// ReadDir returns the next n entries in the server's order, or all that are left if n <= 0.
func (d *fsDir) ReadDir(n int) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrClosed}
	}
	entries := []fs.DirEntry{}
	for n <= 0 || len(entries) < n {
		f, err := d.list.next()
		if err == io.EOF {
			if n > 0 && len(entries) == 0 {
				return entries, io.EOF
			}
			break
		}
		if err != nil {
			return entries, named(err, "readdir", d.name)
		}
		entries = append(entries, f.DirEntry())
	}
	return entries, nil
}

// ReadDir lists a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := f.full("readdir", name)
	if err != nil {
		return nil, err
	}
	files, err := f.client.ReadDir(full)
	entries := make([]fs.DirEntry, len(files))
	for i, file := range files {
		entries[i] = file.DirEntry()
	}
	slices.SortFunc(entries,
		func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, named(err, "readdir", name)
}

// Stat returns attributes, following symbolic links.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", wire.TypeStat, name) }

// Lstat returns attributes without following a symbolic link at name.
func (f *FS) Lstat(name string) (fs.FileInfo, error) {
	return f.stat("lstat", wire.TypeLstat, name)
}

func (f *FS) stat(op string, t wire.Type, name string) (fs.FileInfo, error) {
	full, err := f.full(op, name)
	if err != nil {
		return nil, err
	}
	info, err := run(f.client.ctx, f.client.stat(op, t, full))
	if err != nil {
		return nil, named(err, op, name)
	}
	return fileInfo{path.Base(name), info.Sys().(*FileStat)}, nil
}

// ReadLink returns the target of a symbolic link, unchanged.
func (f *FS) ReadLink(name string) (string, error) {
	full, err := f.full("readlink", name)
	if err != nil {
		return "", err
	}
	target, err := f.client.ReadLink(full)
	return target, named(err, "readlink", name)
}

// ReadFile reads a whole file, like [Client.ReadFile].
func (f *FS) ReadFile(name string) ([]byte, error) {
	full, err := f.full("open", name)
	if err != nil {
		return nil, err
	}
	data, err := f.client.ReadFile(full)
	return data, named(err, "open", name)
}

// Sub returns the file system below a directory. It sends no request.
func (f *FS) Sub(dir string) (fs.FS, error) {
	full, err := f.full("sub", dir)
	if err != nil {
		return nil, err
	}
	return f.client.DirFS(full), nil
}

// Glob returns the names that match a pattern, like [fs.Glob]; see [Client.Glob].
func (f *FS) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	if pattern == "." {
		return []string{"."}, nil
	}
	names, err := f.client.glob(pattern, false, func(name string) (string, error) {
		return f.full("glob", name)
	})
	slices.Sort(names)
	return names, err
}
