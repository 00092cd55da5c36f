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

// TestCountAhead: long before a slow copy has listed its source, the totals say how much there is,
// without what is left out; and the count ends with the copy.
func TestCountAhead(t *testing.T) {
	const dirs, each, size = 20, 60, 5000
	for i, direction := range []way{upload, download, upload} {
		syncs := i == 2
		synctest.Test(t, func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{
				ToServer: 20 * time.Millisecond, ToClient: 20 * time.Millisecond})
			source, target := filepath.Join(b.dir, "source"), "/target"
			if direction == download {
				source, target = "/source", filepath.Join(b.dir, "target")
			}
			for i := range dirs {
				dir := fmt.Sprintf("%s/deep/dir%d", source, i)
				if direction == download {
					b.server.Files.Mkdir("/source")
					b.server.Files.Mkdir("/source/deep")
					b.server.Files.Mkdir(dir)
				} else if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				for n := range each {
					name := fmt.Sprintf("%s/file%d", dir, n)
					if n == 0 {
						name += ".tmp"
					}
					if direction == download {
						b.server.Files.WriteFile(name, make([]byte, size))
					} else if err := os.WriteFile(name, make([]byte, size), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			o := transfer.TreeOptions{CountAhead: true, Filter: rules("*.tmp"),
				MaxFiles: 8} // as over a slow link to a server with few handles
			o.RateLimit = 100_000
			run := func() (transfer.Summary, error) {
				return b.tree(direction, source, target, func(j *treeJob) {
					o.Events = j.Options.Events
					j.Options, j.TreeOptions = o.Options, o
				})
			}
			if syncs {
				j := syncJob{direction: direction, far: b.host, src: source, dst: target,
					options: transfer.SyncOptions{TreeOptions: o}}
				run = func() (s transfer.Summary, err error) {
					s, err = j.run(t)
					b.events = j.events
					return s, err
				}
			}
			s, err := run()
			const files, bytes = dirs * (each - 1), dirs * (each - 1) * size
			if err != nil || s.Files != files || s.Bytes != bytes {
				t.Fatalf("%v: %+v, %v", direction, s, err)
			}
			for _, e := range b.events {
				if e.Totals == nil || e.Totals.CountedFiles == 0 {
					continue
				}
				if e.Totals.Complete || e.Elapsed > 5*time.Second ||
					e.Totals.CountedFiles != files || e.Totals.CountedBytes != bytes {
					t.Errorf("%v: after %v there were %+v", direction, e.Elapsed, e.Totals)
				}
				return
			}
			t.Errorf("%v: nothing was counted", direction)
		})
	}
}

// TestCountAheadOfALostSource: a count that cannot be made says nothing, and holds nobody up.
func TestCountAheadOfALostSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond}
		b := newTreeBench(t, sftptest.Script{}, link)
		b.server.Files.Mkdir("/source")
		for n := range 2000 {
			b.server.Files.WriteFile(fmt.Sprint("/source/file", n), make([]byte, 5000))
		}
		end := b.reconnect(link)
		time.AfterFunc(1001*time.Millisecond, func() { end.Cut(nil) }) // while it counts
		began := time.Now()
		_, err := b.tree(download, "/source", filepath.Join(b.dir, "target"), func(j *treeJob) {
			j.Options.RateLimit, j.TreeOptions.CountAhead = 100_000, true
		})
		if took := time.Since(began); err == nil || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		for _, e := range b.events {
			if e.Kind == transfer.Progress && e.Totals.CountedFiles > 0 {
				t.Errorf("%+v were counted", e.Totals)
			}
		}
	})
}
