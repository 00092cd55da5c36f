//go:build linux || darwin || freebsd

package osfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
)

// sweepDepth limits the directories that a sweep has open.
const sweepDepth = 200

// Sweep removes the leftovers of uploads that have not been resumed for an age: abandoned ones, and
// those of servers that died. An age of 7 days leaves clients time to come back. It reads all
// directories of a tree made by [NewAtomic], and does nothing in others. What it cannot remove or
// read does not keep it from the rest; it returns the first error. What it removes no longer counts
// in the quotas of the tree, of which it needs one for each count.
func (f *FS) Sweep(ctx context.Context, age time.Duration, quotas ...*server.Quota) error {
	if !f.tree.atomic() {
		return nil
	}
	top, err := f.tree.openPath(ctx, "/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	s := sweep{f.tree.uploads, time.Now().Add(-age), quotas}
	return s.directory(ctx, top, 0)
}

// sweep is a sweep under way.
type sweep struct {
	*uploads
	before time.Time
	quotas []*server.Quota
}

// directory sweeps an open directory and those below it, and closes it. It skips directories that
// cannot be opened.
func (s *sweep) directory(ctx context.Context, dir *os.File, depth int) (first error) {
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(listBatch)
		for _, entry := range entries {
			name := path.Join(dir.Name(), entry.Name())
			failed := control(dir, func(fd int) error {
				switch {
				case isHidden(entry.Name()):
					return named("remove", name, s.upload(ctx, fd, name))
				case !entry.IsDir() || depth == sweepDepth:
					return ctx.Err()
				}
				below, err := openAt(fd, entry.Name(),
					unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
				if err != nil {
					return ctx.Err()
				}
				return s.directory(ctx, os.NewFile(uintptr(below), name), depth+1)
			})
			if ctx.Err() != nil {
				return ctx.Err()
			}
			first = cmp.Or(first, failed)
		}
		if errors.Is(err, io.EOF) {
			return cmp.Or(first, ctx.Err())
		}
		if err != nil {
			return cmp.Or(first, err)
		}
	}
}

// upload removes a hidden file that is old.
func (s *sweep) upload(ctx context.Context, dir int, name string) error {
	hidden := path.Base(name)
	st, err := s.old(dir, hidden)
	if err == nil {
		_, err = server.Sweep(ctx, name, func() (fs.FileInfo, error) {
			st, err := statAt(dir, hidden)
			return &info{name: hidden, st: st}, err
		}, func() (bool, error) {
			if now, err := s.old(dir, hidden); err != nil || identify(&now) != identify(&st) {
				return false, err // a client has come back while this waited
			}
			err := s.drop(ctx, dir, hidden, false, nil)
			return err == nil, err
		}, s.quotas...)
	}
	if errors.Is(err, unix.ENOENT) || err == errBusy {
		err = nil
	}
	return err
}

// old describes a hidden file whose ctime is old: clients can set the mtime.
func (s *sweep) old(dir int, hidden string) (st unix.Stat_t, err error) {
	st, err = statAt(dir, hidden)
	if err == nil && !time.Unix(st.Ctim.Unix()).Before(s.before) {
		err = unix.ENOENT
	}
	return st, err
}
