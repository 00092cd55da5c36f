//go:build unix

package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestUntypedTrees: trees are copied, mirrored and moved as a whole from and to a host that does not
// tell the types of files, and no link is followed.
func TestUntypedTrees(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]sftptest.Script{
		"no modes":             {HideAttrs: wire.AttrPermissions},
		"no modes, bare lines": {HideAttrs: wire.AttrPermissions, BareLines: true},
		"permissions only":     {HideTypes: true, BareLines: true},
		"sizes only":           {HideAttrs: ^uint32(wire.AttrSize), BareLines: true},
		"nothing":              {HideAttrs: ^uint32(0), BareLines: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			untypedDownload(t, script)
			untypedUpload(t, script)
			script.Refuse = []wire.Type{wire.TypeReadlink}
			untypedUpload(t, script)
		})
	}
}

func untypedDownload(t *testing.T, script sftptest.Script) {
	b := newTreeBench(t, script, sftptest.LinkConfig{})
	files := b.server.Files
	files.WriteFile("/src/dir/file", []byte("data"))
	files.Mkdir("/src/dir/empty")
	files.WriteFile("/other/file", []byte("data"))
	files.Symlink("/other", "/src/link")
	dst := filepath.Join(b.dir, "dst")
	fill(t, dst, "extra/file")
	j := &syncJob{direction: download, far: b.host, src: "/src", dst: dst,
		options: transfer.SyncOptions{Delete: true}}
	s := j.must(t)
	if data := b.read("dst/dir/file"); string(data) != "data" || s.Deleted == 0 {
		t.Errorf("sync: %q, %+v", data, s.Totals)
	}
	for name, want := range map[string]bool{"dir/empty": true, "extra": false, "link": true} {
		if _, err := os.Lstat(filepath.Join(dst, name)); (err == nil) != want {
			t.Errorf("sync: %s: %v", name, err)
		}
	}
	target := filepath.Join(b.dir, "moved")
	_, err := b.tree(download, "/src", target, func(j *treeJob) {
		j.Options.RemoveSource = true
	})
	if data := b.read("moved/dir/file"); err != nil || string(data) != "data" {
		t.Errorf("the move: %q, %v", data, err)
	}
	if left := files.List(); !slices.Contains(left, "/other/file") ||
		slices.Contains(left, "/src/dir/file") {
		t.Errorf("the move left %q", left)
	}
}

func untypedUpload(t *testing.T, script sftptest.Script) {
	b := newTreeBench(t, script, sftptest.LinkConfig{})
	files := b.server.Files
	files.WriteFile("/dst/extra/dir/file", []byte("data"))
	files.WriteFile("/dst/file/below", []byte("data"))
	files.WriteFile("/other/file", []byte("data"))
	files.Symlink("/other", "/dst/link")
	src := filepath.Join(b.dir, "src")
	fill(t, src, "dir/file", "file")
	j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
		options: transfer.SyncOptions{Delete: true}}
	for range 2 {
		s := j.must(t)
		want := []string{"/dst/", "/dst/dir/", "/dst/dir/file", "/dst/file", "/other/", "/other/file"}
		if left := files.List(); fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("the host has %q, not %q; %+v", left, want, s.Totals)
		}
	}
}
