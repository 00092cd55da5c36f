package transfer_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/server/osfs"
)

// likeWindows refuses to rename files that are open in this process, or to replace them.
type likeWindows struct {
	*osfs.FS
	dir     string
	refused atomic.Int32
}

func (f *likeWindows) PosixRename(ctx context.Context, from, to string) error {
	if slices.ContainsFunc([]string{from, to}, f.open) {
		f.refused.Add(1)
		return fs.ErrPermission
	}
	return f.FS.PosixRename(ctx, from, to)
}

func (f *likeWindows) open(name string) bool {
	opened, _ := filepath.Glob("/proc/self/fd/*")
	return slices.ContainsFunc(opened, func(fd string) bool {
		path, _ := os.Readlink(fd)
		return path == filepath.Join(f.dir, name)
	})
}

// TestDeltaOnHostThatDoesNotReplaceOpenFiles: a delta leaves the old file open until it has been
// replaced, unless the host cannot replace open files.
func TestDeltaOnHostThatDoesNotReplaceOpenFiles(t *testing.T) {
	dir := t.TempDir()
	inner, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	files := &likeWindows{FS: inner, dir: dir}
	host, _ := deltaHostOf(t, files, nil)
	old := random(12 << 20)
	fresh := append(noiseOf(3, 1<<20), old...)
	source, target, stored := deltaFiles(t, upload, dir, fresh, old)
	j := copyJob{Host: host, Direction: upload, Source: source, Target: target}
	always(&j)
	result, err := j.Run(t.Context())
	if err != nil || result.Reused == 0 {
		t.Errorf("%d bytes came from the old file; then %v", result.Reused, err)
	}
	if files.refused.Load() != 1 {
		t.Errorf("the host refused %d times", files.refused.Load())
	}
	if got, _ := os.ReadFile(stored); !bytes.Equal(got, fresh) {
		t.Error("what arrived is not the source")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
