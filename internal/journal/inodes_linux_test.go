package journal

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/internal/testenv"
)

// forgetful is a directory whose files get other inode numbers whenever they are looked up.
type forgetful struct{ fs.LoopbackNode }

var inodes atomic.Uint64

func (n *forgetful) Lookup(ctx context.Context, name string,
	out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	child, errno := n.LoopbackNode.Lookup(ctx, name, out)
	if errno != 0 {
		return nil, errno
	}
	is := &forgetful{fs.LoopbackNode{RootData: n.RootData}}
	return n.NewInode(ctx, is, fs.StableAttr{Mode: child.Mode(), Ino: 1<<40 + inodes.Add(1)}), 0
}

// A copy does not wait forever for a mark that looks like another file whenever it is looked at, as
// in a home on a file system without inode numbers of its own.
func TestInodesThatDoNotLast(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root can mount")
	}
	at, never := t.TempDir(), time.Duration(0)
	root := &forgetful{fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: t.TempDir()}}}
	root.RootData.RootNode = root
	server, err := fs.Mount(at, root, &fs.Options{AttrTimeout: &never, EntryTimeout: &never,
		MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		testenv.Unavailable(t, err)
	}
	defer server.Unmount()
	ended := make(chan *File, 1)
	go func() {
		f, _ := Lock(filepath.Join(at, "mark"))
		ended <- f
	}()
	select {
	case f := <-ended:
		if f != nil {
			f.file.Close()
			t.Error("locked a file that may be another one")
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for the file to stay the same")
	}
}
