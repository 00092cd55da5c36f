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

	"github.com/usftp/usftp/transfer"
)

// lossy is a directory whose new files keep what fits into longestKept, and take the rest without
// an error.
type lossy struct{ fs.LoopbackNode }

// lossyFile embeds no LoopbackFile, for which the kernel would write by itself.
type lossyFile struct{ file *fs.LoopbackFile }

const longestKept = 100 << 10

func (n *lossy) Create(ctx context.Context, name string, flags, mode uint32,
	out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	made, file, _, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return made, lossyFile{file.(*fs.LoopbackFile)}, 0, 0
}

func (f lossyFile) Write(ctx context.Context, p []byte, off int64) (uint32, syscall.Errno) {
	if kept := min(int64(len(p)), longestKept-off); kept > 0 {
		if _, errno := f.file.Write(ctx, p[:kept], off); errno != 0 {
			return 0, errno
		}
	}
	return uint32(len(p)), 0
}

func (f lossyFile) Release(ctx context.Context) syscall.Errno { return f.file.Release(ctx) }

// TestADiskThatDoesNotSayWhatItLoses: a copy that is too short replaces nothing, even if the file
// system has taken all of its data.
func TestADiskThatDoesNotSayWhatItLoses(t *testing.T) {
	dst := t.TempDir()
	root := &lossy{fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: t.TempDir()}}}
	root.RootData.RootNode = root
	mounts(t, dst, root)
	far := sftpServer(t)
	for _, direction := range []way{download, local} {
		src := t.TempDir()
		fill(t, src, "long", "short")
		if err := os.Truncate(filepath.Join(src, "long"), longestKept); err != nil {
			t.Fatal(err)
		}
		long, err := os.OpenFile(filepath.Join(src, "long"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		long.WriteString("the end")
		long.Close()
		fill(t, dst, "long")
		to, from := direction.endpoints(far, far, src, dst, nil, nil)
		options := transfer.TreeOptions{}
		options.NoTargetDirectory = true
		s, err := transfer.CopyTree(t.Context(), to, from, options)
		if err == nil || !strings.Contains(err.Error(), "reported no error") || s.Files != 1 {
			t.Errorf("%v: %+v, %v", direction, s.Totals, err)
		}
		want := filepath.Join(dst, "long") // as fill writes it
		if got, err := os.ReadFile(want); string(got) != want {
			t.Errorf("%v: what was there has %d bytes now, %v", direction, len(got), err)
		}
		if left := filesIn(dst); len(left) != 2 {
			t.Errorf("%v: left behind: %q", direction, left)
		}
	}
}
