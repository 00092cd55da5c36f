//go:build unix

package transfer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A directory whose permissions a host does not tell gives its copy none.
func TestDirectoryOfUntoldMode(t *testing.T) {
	b := reticent{asked: []wire.Type{wire.TypeStat, wire.TypeLstat},
		answer: sftptest.Refuse(wire.PermissionDenied, "")}.bench(t)
	b.server.Files.WriteFile("/src/file", []byte("text"))
	dst := filepath.Join(b.dir, "dst")
	if err := os.Mkdir(dst, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(b.host, "/src"),
		transfer.SyncOptions{})
	if got, _ := os.ReadFile(filepath.Join(dst, "file")); err != nil || string(got) != "text" {
		t.Fatalf("the file is %q: %v", got, err)
	}
	if is, err := os.Stat(dst); err != nil || is.Mode().Perm() != 0o700 {
		t.Errorf("the directory has %v, %v", is.Mode(), err)
	}
}
