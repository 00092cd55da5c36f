//go:build unix

package cli

import (
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestSyncWithRsyncsShell: the usual command line of rsync, with the port and the key in -e.
func TestSyncWithRsyncsShell(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	dir, far := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "f"), []byte("x"))
	got := run(t, dir, "sync", "-avz", "-e", "ssh -F "+sshd.ConfigFile, "./", "testhost:"+far)
	if data := readFile(t, filepath.Join(far, "f")); got.code != 0 || string(data) != "x" {
		t.Errorf("%+v: the copy has %q", got, data)
	}
}
