package transfer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
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

// TestRoundTripsOfATree: over a link where waiting takes time, files that are too large for one
// packet, and directories with few files each, do not wait for one another, nor does a file that is
// read wait for the reply to the CLOSE of another one.
func TestRoundTripsOfATree(t *testing.T) {
	t.Parallel()
	const trip = time.Second
	for name, tree := range map[string]struct{ dirs, files, size, up, down int }{
		"files of 300 KB":     {1, 100, 300_000, 18, 18},
		"directories of five": {400, 5, 10, 15, 14},
		"many directories":    {2000, 5, 10, 38, 28},
		"many files":          {100, 100, 10, 38, 28},
	} {
		for _, direction := range []way{upload, download} {
			t.Run(name+" "+direction.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limits := sftptest.OpenSSHLimits()
					b := newTreeBench(t, sftptest.Script{Limits: &limits, Extensions: []wire.ExtensionPair{
						{Name: wire.ExtPosixRename, Data: "1"}, {Name: wire.ExtLimits, Data: "1"}}},
						sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
					source, target := filepath.Join(b.dir, "tree"), "/copy"
					if direction == download {
						source, target = "/tree", filepath.Join(b.dir, "copy")
					}
					data := random(tree.size)
					for i := range tree.dirs * tree.files {
						name := fmt.Sprintf("d%d/f%d", i/tree.files, i)
						if direction == upload {
							name = filepath.Join(source, name)
							if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
								os.WriteFile(name, data, 0o644)); err != nil {
								t.Fatal(err)
							}
						} else {
							b.server.Files.WriteFile("/tree/"+name, data)
						}
					}
					began := time.Now()
					s, err := b.tree(direction, source, target)
					if err != nil || s.Files != int64(tree.dirs*tree.files) {
						t.Fatal(s, err)
					}
					most := tree.up
					if direction == download {
						most = tree.down
					}
					if trips := int(time.Since(began) / trip); trips > most {
						t.Errorf("it took %d round trips", trips)
					}
				})
			})
		}
	}
}

// TestRoundTripsOfASync: where all is there already, a sync waits for listings only, many at once.
func TestRoundTripsOfASync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const trip, dirs = time.Second, 2000
		limits := sftptest.OpenSSHLimits()
		b := newTreeBench(t, sftptest.Script{Limits: &limits, Extensions: []wire.ExtensionPair{
			{Name: wire.ExtPosixRename, Data: "1"}, {Name: wire.ExtLimits, Data: "1"}}},
			sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		local := filepath.Join(b.dir, "tree")
		for i := range dirs {
			dir := filepath.Join(local, fmt.Sprint("d", i))
			if err := errors.Join(os.MkdirAll(dir, 0o755),
				os.WriteFile(filepath.Join(dir, "f"), nil, 0o644),
				os.Chtimes(filepath.Join(dir, "f"), oldTime, oldTime)); err != nil {
				t.Fatal(err)
			}
		}
		here, there := transfer.Local(local), transfer.Remote(b.host, "/copy")
		if _, err := transfer.Sync(t.Context(), there, here, transfer.SyncOptions{}); err != nil {
			t.Fatal(err)
		}
		for name, ends := range map[string][2]transfer.Endpoint{"up": {there, here},
			"down": {here, there}} {
			began := time.Now()
			r, err := transfer.Sync(t.Context(), ends[0], ends[1], transfer.SyncOptions{})
			if err != nil || r.Files != 0 {
				t.Fatalf("%s: %d files, %v", name, r.Files, err)
			}
			if trips := int(time.Since(began) / trip); trips > 25 {
				t.Errorf("%s: it took %d round trips", name, trips)
			}
		}
	})
}
