package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/transfer"
)

// folding is a directory, or a file in one, that takes all spellings of a name for one. Each is the
// root of a tree of its own, since others would be found by the names that they were asked by.
type folding struct{ fs.LoopbackNode }

func newFolding(path string) *folding {
	n := &folding{fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: path}}}
	n.RootData.RootNode = n
	return n
}

func (n *folding) below(name string) string {
	return filepath.Join(n.RootData.Path, strings.ToLower(norm.NFC.String(name)))
}

func (n *folding) Lookup(ctx context.Context, name string,
	out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	var is syscall.Stat_t
	if err := syscall.Lstat(n.below(name), &is); err != nil {
		return nil, fs.ToErrno(err)
	}
	out.Attr.FromStat(&is)
	id := fs.StableAttr{Mode: is.Mode, Ino: is.Ino}
	return n.NewInode(ctx, newFolding(n.below(name)), id), 0
}

func (n *folding) Create(ctx context.Context, name string, flags, mode uint32,
	out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	fd, err := syscall.Open(n.below(name), int(flags)|os.O_CREATE, mode)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	made, errno := n.Lookup(ctx, name, out)
	return made, fs.NewLoopbackFile(fd), 0, errno
}

func (n *folding) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fd, err := syscall.Open(n.RootData.Path, int(flags), 0)
	return fs.NewLoopbackFile(fd), 0, fs.ToErrno(err)
}

func (n *folding) Unlink(_ context.Context, name string) syscall.Errno {
	return fs.ToErrno(syscall.Unlink(n.below(name)))
}

func (n *folding) Rename(_ context.Context, name string, in fs.InodeEmbedder, to string,
	_ uint32) syscall.Errno {
	into := in.(*folding).below(to)
	if child := n.GetChild(name); child != nil {
		child.Operations().(*folding).RootData.Path = into
	}
	return fs.ToErrno(os.Rename(n.below(name), into))
}

// mounts mounts a file system for the time of a test. The test is not parallel: a program that
// another one starts could have a file of it open for a moment.
func mounts(t *testing.T, at string, root fs.InodeEmbedder) {
	t.Helper()
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root can mount")
	}
	mounted, err := fs.Mount(at, root,
		&fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		testenv.Unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := mounted.Unmount(); err != nil {
			t.Error(err)
		}
	})
}

// TestSyncToADiskOfOtherSpellings: a sync finds what a disk of this machine has under another
// spelling of its name, with a lock or without one, and so does not replace what is to stay.
func TestSyncToADiskOfOtherSpellings(t *testing.T) {
	dst := t.TempDir()
	mounts(t, dst, newFolding(t.TempDir()))
	src, composed := t.TempDir(), norm.NFC.String("käse")
	fill(t, src, "FILE", norm.NFD.String(composed), "new")
	for _, noLock := range []bool{false, true} {
		for _, name := range []string{"file", composed} {
			if err := os.WriteFile(filepath.Join(dst, name), []byte("there"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		options := transfer.SyncOptions{Only: transfer.SyncOnly{IgnoreExisting: true}, NoLock: noLock}
		s, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Local(src), options)
		if err != nil || s.Files != 1 {
			t.Errorf("no lock %v: %+v, %v", noLock, s.Totals, err)
		}
		for _, name := range []string{"file", composed} {
			if got, err := os.ReadFile(filepath.Join(dst, name)); string(got) != "there" {
				t.Errorf("no lock %v: %s is %q now, %v", noLock, name, got, err)
			}
		}
		if err := os.Remove(filepath.Join(dst, "new")); err != nil {
			t.Fatal(err)
		}
	}
}
