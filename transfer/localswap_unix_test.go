//go:build unix

package transfer_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// While a file is fetched, a link takes the place of the directory that it is for. Nothing is put
// where the link leads, and what it leads to keeps its attributes.
func TestLocalDirectorySwappedWhileItIsFilled(t *testing.T) {
	var dir string
	swapped := false
	b := newTreeBench(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeRead && r.Path == "/tree/d/file" && !swapped {
				swapped = true
				swapForLink(t, filepath.Join(dir, "d"), filepath.Join(dir, "aside"), "other")
			}
			return nil
		}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/tree/d/file", []byte("data"))
	if err := b.server.Files.SetMode("/tree/d", fs.ModeDir|0o755); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(b.dir, "out")
	other := filepath.Join(dir, "other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, oldTime, oldTime); err != nil {
		t.Fatal(err)
	}
	summary, err := b.tree(download, "/tree", dir, func(j *treeJob) {
		j.Options.Preserve, j.Options.NoTargetDirectory = true, true
	})
	info, lookErr := os.Lstat(other)
	if lookErr != nil {
		t.Fatal(lookErr)
	}
	if info.Mode() != fs.ModeDir|0o700 || !info.ModTime().Equal(oldTime) {
		t.Errorf("what the link leads to has the mode %v and the time %v", info.Mode(),
			info.ModTime())
	}
	if !swapped || summary.Failed != 2 || err == nil ||
		!strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("swapped %v: %+v, %v", swapped, summary.Totals, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("the file was put where the link leads: %v, %v", left, err)
	}
}
