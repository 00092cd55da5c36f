//go:build linux || darwin || freebsd

package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// root is a served directory. If it is removed and made again, the new one is opened, since the old
// one stays empty forever.
type root struct {
	file atomic.Pointer[os.File]
	path string // leads through no link; "" if it cannot be opened again

	mu     sync.Mutex
	closed bool
}

func openRoot(dir string) (*root, error) {
	file, err := os.OpenFile(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	r := rootOf(file)
	if r.isRemoved() {
		return r, nil // its file system does not count links
	}
	if path, err := filepath.Abs(dir); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			r.path = path
		}
	}
	return r, nil
}

func rootOf(file *os.File) *root {
	r := &root{}
	r.file.Store(file)
	return r
}

func (r *root) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.file.Load().Close()
}

// renewed is called when a name was not found below old, and reports whether to look again, because
// another directory has taken old's place.
func (r *root) renewed(old *os.File, err error) bool {
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESTALE) &&
		!errors.Is(err, os.ErrClosed) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return false
	case r.file.Load() != old:
		return true
	case !r.isGone():
		return false
	}
	file, err := openWithoutLinks(r.path)
	if err != nil {
		return false
	}
	r.file.Store(file)
	old.Close()
	return true
}

// isRemoved reports whether the directory has no name any more. It can still be opened as ".", but
// nothing can be in it.
func (r *root) isRemoved() bool {
	var st unix.Stat_t
	err := control(r.file.Load(), func(fd int) error { return unix.Fstat(fd, &st) })
	return err == unix.ESTALE || err == nil && st.Nlink == 0
}

// isGone reports whether the directory has been removed and may be made again.
func (r *root) isGone() bool { return r != nil && r.path != "" && r.isRemoved() }

// openWithoutLinks opens a directory by its path, and refuses links: a user who may remove the
// served directory must not choose the one served in its place.
func openWithoutLinks(path string) (*os.File, error) {
	fd, err := openAt(unix.AT_FDCWD, "/", openDirectory, 0)
	if err != nil {
		return nil, err
	}
	for element := range strings.SplitSeq(strings.Trim(path, "/")+"/.", "/") {
		if element == "" {
			continue
		}
		flag := openDirectory
		if element == "." {
			flag = unix.O_RDONLY | unix.O_DIRECTORY
		}
		next, err := openAt(fd, element, flag|unix.O_NOFOLLOW, 0)
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		fd = next
	}
	return os.NewFile(uintptr(fd), path), nil
}
