//go:build linux || darwin || freebsd

package osfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// sweepDepth limits the directories that a sweep has open.
const sweepDepth = 200

// Sweep removes the leftovers of uploads that have not been resumed for an age: abandoned ones, and
// those of servers that died. An age of 7 days leaves clients time to come back. It reads all
// directories of a tree made by [NewAtomic], and does nothing in others. What it cannot remove or
// read does not keep it from the rest; it returns the first error.
func (f *FS) Sweep(ctx context.Context, age time.Duration) error {
	if !f.tree.atomic() {
		return nil
	}
	top, err := f.tree.openPath(ctx, "/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return f.tree.uploads.sweep(ctx, top, time.Now().Add(-age), 0)
}

// sweep sweeps an open directory and those below it, and closes it. It skips directories that
// cannot be opened.
func (u *uploads) sweep(ctx context.Context, dir *os.File, before time.Time,
	depth int) (first error) {
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(listBatch)
		for _, entry := range entries {
			name := path.Join(dir.Name(), entry.Name())
			failed := control(dir, func(fd int) error {
				switch {
				case isHidden(entry.Name()):
					return named("remove", name, u.sweepUpload(fd, entry.Name(), before))
				case !entry.IsDir() || depth == sweepDepth:
					return ctx.Err()
				}
				below, err := openAt(fd, entry.Name(),
					unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
				if err != nil {
					return ctx.Err()
				}
				return u.sweep(ctx, os.NewFile(uintptr(below), name), before, depth+1)
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

// sweepUpload removes a hidden file whose ctime is before a time: clients can set the mtime.
func (u *uploads) sweepUpload(dir int, hidden string, before time.Time) error {
	st, err := statAt(dir, hidden)
	if err == nil && time.Unix(st.Ctim.Unix()).Before(before) {
		err = u.drop(dir, hidden, false, nil)
	}
	if err == unix.ENOENT || err == errBusy {
		err = nil
	}
	return err
}
