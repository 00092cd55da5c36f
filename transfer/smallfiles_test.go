package transfer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// Many small files are in flight at once with every kind of placement, and synced ones too.
func TestSmallFilesOfEveryPlacement(t *testing.T) {
	t.Parallel()
	const trip, files = time.Second, 200
	for name, options := range map[string]transfer.Options{
		"in place": {Placement: transfer.PlaceDirect}, "atomic": {Placement: transfer.PlaceAtomic},
		"synced": {Sync: true}, "synced in place": {Sync: true, Placement: transfer.PlaceDirect},
	} {
		for _, direction := range []way{upload, download} {
			t.Run(name+" "+direction.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newTreeBench(t, sftptest.Script{},
						sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
					tree := treeJob{Host: b.host, Direction: direction,
						Source: filepath.Join(b.dir, "tree"), Target: "/copy", Options: options}
					if direction == download {
						tree.Source, tree.Target = "/tree", filepath.Join(b.dir, "copy")
					}
					os.Mkdir(filepath.Join(b.dir, "tree"), 0o755)
					for i := range files {
						name, data := fmt.Sprint("tree/", i), []byte(fmt.Sprint("data ", i))
						if direction == upload {
							b.local(name, data)
						} else {
							b.server.Files.WriteFile("/"+name, data)
						}
					}
					began := time.Now()
					s, err := tree.Run(t.Context())
					if err != nil || s.Files != files {
						t.Fatal(s, err)
					}
					if trips := int(time.Since(began) / trip); trips > 11 {
						t.Errorf("it took %d round trips", trips)
					}
					for i := range files {
						var got []byte
						if direction == upload {
							got = b.remote(fmt.Sprint("/copy/", i))
						} else {
							got = b.read(fmt.Sprint("copy/", i))
						}
						if string(got) != fmt.Sprint("data ", i) {
							t.Fatalf("file %d is %q", i, got)
						}
					}
				})
			})
		}
	}
}
