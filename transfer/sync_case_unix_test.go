//go:build unix

package transfer_test

import (
	"strings"
	"testing"

	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// TestSyncToAHostThatDoesNotTellOfCase: a host that ignores case, and does not say what is there,
// loses nothing that was copied a moment before.
func TestSyncToAHostThatDoesNotTellOfCase(t *testing.T) {
	files := foldFS{memfs.New(0), strings.ToLower}
	host := (&uploadsHost{t: t, files: files, denied: []string{"stat", "lstat"}}).connect(0)
	src := t.TempDir()
	fill(t, src, "Photo.jpg", "gone")
	for range 2 {
		if _, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{Delete: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Stat(t.Context(), "/dst/photo.jpg"); err != nil {
			t.Fatal(err)
		}
	}
}
