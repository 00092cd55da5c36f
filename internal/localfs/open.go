package localfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrLink reports that a symbolic link has taken the place of a file or a directory.
var ErrLink = errors.New("is a symbolic link now")

// maxLinks is how many symbolic links Linux follows in one name.
const maxLinks = 40

// FollowLinks returns the target of a chain of symbolic links, which need not exist. The ".." of a
// link is the directory above the one that it is in, by whatever path it was found.
func FollowLinks(name string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		to, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(name)
			to = dir + to
		}
		// not by names alone: above a directory reached by a link is not what the path says
		above, base := filepath.Split(to)
		if name = to; strings.Contains(above, "..") {
			if above, err = filepath.EvalSymlinks(above); err != nil {
				return "", err
			}
			name = filepath.Join(above, base)
		}
	}
	return "", &fs.PathError{Op: "write", Path: name, Err: errors.New("too many symbolic links")}
}

// OpenWaiting opens a file whose opening may wait for another program, as a named pipe's does. If
// ctx ends first, OpenWaiting returns and the opening is left to finish by itself.
func OpenWaiting(ctx context.Context, open func() (*os.File, error)) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := open()
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		return r.file, r.err
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.file.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// Interruptible makes reads and writes of a pipe, a terminal and the like, which wait for another
// program or a person, fail with os.ErrDeadlineExceeded when ctx ends, until free is called. Files
// that cannot wait take no deadline.
func Interruptible(ctx context.Context, f *os.File) (free func()) {
	stop := context.AfterFunc(ctx, func() { f.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// An Owner is the owner and the group of a file by number: SFTP version 3 has no others
// (draft-ietf-secsh-filexfer-02, section 5), and the two sides need not know the same people.
type Owner struct {
	UID, GID int
	Known    bool
}

// Keep gives f the owner of the file that it replaces, if it differs.
func (o Owner) Keep(f *os.File) error {
	info, err := f.Stat() // in some directories a new file does not get its maker's group
	if err != nil || !o.Known || OwnerOf(info) == o {
		return err
	}
	return f.Chown(o.UID, o.GID)
}
