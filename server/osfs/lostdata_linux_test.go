package osfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// losing is a file system that says when a file is closed, or flushed, what it has lost, as network
// file systems do.
type losing struct {
	fusefs.LoopbackNode
	closing, flushing *atomic.Int32 // errors
}

func (l *losing) WrapChild(context.Context, fusefs.InodeEmbedder) fusefs.InodeEmbedder {
	return &losing{fusefs.LoopbackNode{RootData: l.RootData}, l.closing, l.flushing}
}

func (l *losing) Flush(context.Context, fusefs.FileHandle) syscall.Errno {
	return syscall.Errno(l.closing.Swap(0)) // the system says it once
}

func (l *losing) Fsync(context.Context, fusefs.FileHandle, uint32) syscall.Errno {
	return syscall.Errno(l.flushing.Swap(0))
}

// OpendirHandle opens a directory that cannot be flushed, nor listed.
func (l *losing) OpendirHandle(context.Context, uint32) (fusefs.FileHandle, uint32,
	syscall.Errno) {
	return unsynced{}, 0, 0
}

type unsynced struct{}

func (unsynced) Fsyncdir(context.Context, uint32) syscall.Errno { return syscall.EINVAL }

// newLosing returns a directory of such a file system.
func newLosing(t *testing.T) (*atomics, *losing) {
	t.Helper()
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root can mount")
	}
	data := &fusefs.LoopbackRoot{Path: t.TempDir()}
	root := &losing{fusefs.LoopbackNode{RootData: data}, new(atomic.Int32), new(atomic.Int32)}
	data.RootNode = root
	a := &atomics{T: t, dir: t.TempDir()}
	mounted, err := fusefs.Mount(a.dir, root,
		&fusefs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		testenv.Unavailable(t, err)
	}
	t.Cleanup(func() { mounted.Unmount() })
	a.fs = a.serve() // closed before it is unmounted
	return a, root
}

// TestLostDataIsNotResumed: once the system has said that it lost what was written, nobody goes on
// with the rest, nor completes it through another handle, since it looks as long as it was.
func TestLostDataIsNotResumed(t *testing.T) {
	for name, lose := range map[string]func(a *atomics, l *losing, f writer) error{
		"close": func(a *atomics, l *losing, f writer) error {
			l.closing.Store(int32(syscall.EIO))
			return f.Close()
		},
		"fsync": func(a *atomics, l *losing, f writer) error {
			l.flushing.Store(int32(syscall.ENOSPC))
			err := f.(server.FileSyncer).Sync()
			a.abandon(f)
			return err
		},
	} {
		for _, second := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				a, l := newLosing(t)
				f := a.open("/f", truncate)
				a.at(f, 0, "text")
				var other writer
				if second {
					other = a.open("/f", wire.OpenWrite|wire.OpenCreate)
				}
				if err := lose(a, l, f); !errors.Is(err, syscall.EIO) &&
					!errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("the answer is %v", err)
				}
				if second {
					if err := other.Close(); err == nil {
						t.Error("another handle completes it")
					}
				}
				f = a.open("/f", create) // as lftp's put -c
				a.at(f, 4, "s")
				a.must(f.Close())
				got, err := os.ReadFile(filepath.Join(a.dir, "f"))
				a.must(err)
				if string(got) != "\x00\x00\x00\x00s" {
					t.Errorf("it is completed as %q", got)
				}
			})
		}
	}
}

// TestInterruptedClose: an upload is not lost because a signal has interrupted the system call.
func TestInterruptedClose(t *testing.T) {
	a, l := newLosing(t)
	f := a.open("/f", truncate)
	a.at(f, 0, "text")
	l.closing.Store(int32(syscall.EINTR))
	a.must(f.Close())
	if got, err := os.ReadFile(filepath.Join(a.dir, "f")); err != nil || string(got) != "text" {
		t.Errorf("it is %q, %v", got, err)
	}
}

// TestNoFsync: a file is uploaded where there is no fsync of directories, or none at all.
func TestNoFsync(t *testing.T) {
	a, l := newLosing(t)
	for _, answer := range []syscall.Errno{0, syscall.EINVAL, syscall.ENOTSUP} {
		f := a.open("/f", truncate)
		l.flushing.Store(int32(answer))
		if err := f.(server.FileSyncer).Sync(); (err != nil) != (answer != 0) {
			t.Errorf("fsync: %v", err)
		}
		a.must(f.Close())
	}
}
