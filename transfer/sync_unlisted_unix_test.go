//go:build unix

package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestSyncFromAListingThatBreaksOff: OpenSSH's server takes an error while it reads a directory for
// the end of the directory. What the source has is not deleted for that, and the sync fails.
func TestSyncFromAListingThatBreaksOff(t *testing.T) {
	for _, names := range [][]string{
		{"dir/a", "dir/b", "dir/c", "dir/d", "dir/sub/e", "f", "g"},
		{"dir/a", "dir/b", "dir/c~", "dir/d.txt~", "dir/e.~1~", "dir/f:g"}, // like short names and streams
	} {
		syncsFromAListingThatBreaksOff(t, names)
	}
}

func syncsFromAListingThatBreaksOff(t *testing.T, names []string) {
	t.Helper()
	b := newBench(t, sftptest.Script{ReaddirNames: 4, Faults: []sftptest.Fault{{
		On: wire.TypeReaddir, Path: "/src/dir", Skip: 1, Do: sftptest.Refuse(wire.EOF, "")}}},
		sftptest.LinkConfig{})
	for _, dir := range []string{"/src", "/src/dir", "/src/dir/sub"} {
		b.server.Files.Mkdir(dir)
	}
	dst := t.TempDir()
	fill(t, dst, append(names, "old")...)
	for _, name := range names {
		local := filepath.Join(dst, name)
		b.server.Files.WriteFile("/src/"+name, []byte(local))
		stat, err := b.host.Client.Stat("/src/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(local, stat.ModTime(), stat.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	_, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(b.host, "/src"),
		transfer.SyncOptions{Delete: true})
	if err == nil || !strings.Contains(err.Error(), "does not list it") {
		t.Errorf("the sync said: %v", err)
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dst, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
