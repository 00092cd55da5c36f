package transfer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
)

// Files that are each too small to need more connections use several when there are many of them.
func TestFilesSpreadOverThePool(t *testing.T) {
	t.Parallel()
	const trip, files, size = 200 * time.Millisecond, 60, 3 << 20
	for _, direction := range []way{upload, download} {
		took := map[int]time.Duration{}
		for _, connections := range []int{1, 0} {
			synctest.Test(t, func(t *testing.T) {
				h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
					link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2,
						Window: 2 << 20}}
				first, further, end := h.open(t, pool.Config{Connections: connections})
				defer end()
				local, data := t.TempDir(), random(size)
				if err := os.Mkdir(filepath.Join(local, "tree"), 0o755); err != nil {
					t.Fatal(err)
				}
				h.server.Files.Mkdir("/tree")
				for i := range files {
					data[0] = byte(i)
					if direction == upload {
						if err := os.WriteFile(filepath.Join(local, "tree", fmt.Sprint(i)), data,
							0o644); err != nil {
							t.Fatal(err)
						}
					} else {
						h.server.Files.WriteFile(fmt.Sprint("/tree/", i), data)
					}
				}
				tree := treeJob{Host: pool.Host{Client: first, Name: "far", Pool: further},
					Direction: direction,
					Source:    filepath.Join(local, "tree"), Target: "/copy"}
				if direction == download {
					tree.Source, tree.Target = "/tree", filepath.Join(local, "copy")
				}
				began := time.Now()
				summary, err := tree.Run(t.Context())
				if err != nil || summary.Files != files {
					t.Fatalf("%+v, %v", summary, err)
				}
				took[connections] = time.Since(began)
				if h.most > 4 || connections == 1 && h.conns != 0 {
					t.Errorf("%d connections, %d logged in at a time", h.conns, h.most)
				}
				for i := range files {
					got, err := h.server.Files.ReadFile(fmt.Sprint("/copy/", i))
					if direction == download {
						got, err = os.ReadFile(filepath.Join(local, "copy", fmt.Sprint(i)))
					}
					if data[0] = byte(i); err != nil || !bytes.Equal(got, data) {
						t.Fatalf("file %d: %v", i, err)
					}
				}
			})
		}
		if took[0] > took[1]/2 {
			t.Errorf("%v: %v over one connection, %v over several", direction, took[1], took[0])
		}
	}
}
