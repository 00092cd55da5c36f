//go:build linux || darwin || freebsd

package osfs

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// errLinkBeneath is the error for a path that would have to follow a link.
var errLinkBeneath = &server.StatusError{Code: wire.PermissionDenied,
	Message: "a symbolic link is in the way, and is not followed"}

// RemoveBeneath implements server.Beneather.
func (f *FS) RemoveBeneath(ctx context.Context, top, name string) error {
	return f.tree.beneath(ctx, "unlink", top, name, func(dir int, base string) error {
		return unix.Unlinkat(dir, base, 0)
	})
}

// RmdirBeneath implements server.Beneather.
func (f *FS) RmdirBeneath(ctx context.Context, top, name string) error {
	return f.tree.beneath(ctx, "rmdir", top, name, func(dir int, base string) error {
		return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	})
}

// RenameBeneath implements server.Beneather.
func (f *FS) RenameBeneath(ctx context.Context, top, oldName, newName string) error {
	return f.tree.beneath(ctx, "rename", top, oldName, func(from int, old string) error {
		return f.tree.beneath(ctx, "rename", top, newName, func(to int, base string) error {
			return renameFresh(from, old, to, base)
		})
	})
}

// beneath calls op with the directory that holds the last element of name, a clean path relative to
// top, and that element. It goes from directory handle to directory handle and follows no link, so
// swapping directories for links at the same time cannot lead it elsewhere.
func (t tree) beneath(ctx context.Context, what, top, name string,
	op func(dir int, base string) error) error {
	root, err := t.open(ctx, top, openDirectory, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	err = control(root, func(dir int) error {
		held, left, pace := -1, name, pace{ctx: ctx}
		defer func() { closeHeld(held) }()
		defer pace.pause()
		for {
			element, rest, more := strings.Cut(left, "/")
			if !more {
				pace.pause()
				return retry(func() error { return op(dir, element) })
			}
			if err := pace.step(); err != nil {
				return err
			}
			next, err := openAt(dir, element, openDirectory|unix.O_NOFOLLOW, 0)
			if isLinkError(err) {
				if _, notLink := readlinkAt(dir, element); notLink == nil {
					err = errLinkBeneath
				}
			}
			if err != nil {
				return err
			}
			closeHeld(held)
			held, dir, left = next, next, rest
		}
	})
	return named(what, top+"/"+name, err)
}

func closeHeld(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}
