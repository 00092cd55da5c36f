package transfer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestEndWaitsForFilesOnTheirWay: a run that ends before its time waits for the files that have been
// sent to usftp's server as a whole. So nothing changes on the host once it has returned, and what is
// there was counted.
func TestEndWaitsForFilesOnTheirWay(t *testing.T) {
	const all = 300
	source := filepath.Join(t.TempDir(), "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		err := os.WriteFile(filepath.Join(source, fmt.Sprint(i)), []byte("contents"), 0o644)
		if err != nil {
			t.Fatal(err)
		}
	}
	some := false
	for after := 200 * time.Millisecond; after < 3*time.Second; after += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			files := memfs.New(1 << 20)
			near, far := sftptest.NewLink(sftptest.LinkConfig{ToServer: 100 * time.Millisecond,
				RateBytesPerSec: 32 << 10})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				server.Serve(context.Background(), far, files, nil)
			}()
			defer func() { near.Close(); <-ended }()
			host := connect(t, near, ours)
			defer host.Client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			s, err := transfer.CopyTree(ctx, transfer.Remote(host, "/target"), transfer.Local(source),
				transfer.TreeOptions{})
			time.Sleep(time.Minute) // for what is still on its way
			list, listErr := host.Client.ReadDir("/target")
			if len(list) != int(s.Files) || (err == nil) != (s.Files == all) {
				t.Errorf("after %v %d files are there, %d were counted: %v, %v", after, len(list), s.Files,
					err, listErr)
			}
			some = some || s.Files > 0 && s.Files < all
		})
	}
	if !some {
		t.Error("no run ended while files were on their way")
	}
}
