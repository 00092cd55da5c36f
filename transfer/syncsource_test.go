package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A source file that changes while it is copied is reported, and the next run copies it. Until then
// nothing is deleted, and the target keeps the old file.
func TestSyncSourceChanges(t *testing.T) {
	for name, size := range map[string]int{"small": 1000, "large": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			data := random(size)
			var changed atomic.Bool
			var b *bench
			b = newTreeBench(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeRead && r.Path == "/src/changes" && !changed.Swap(true) {
						return []sftptest.Action{sftptest.Call("append", func(sftptest.Request) {
							b.server.Files.Append("/src/changes", []byte("more"))
						})}
					}
					return nil
				}}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/src/changes", data)
			b.server.Files.WriteFile("/src/other", []byte("other"))
			dst := filepath.Join(b.dir, "dst")
			fill(t, dst, "changes", "extra")
			before, _ := os.ReadFile(filepath.Join(dst, "changes"))
			j := &syncJob{direction: download, far: b.host, src: "/src", dst: dst,
				options: transfer.SyncOptions{Delete: true}}
			s, err := j.run(t)
			if size < 10_000 && err == nil { // it was read in one piece, after the change
				if got, _ := os.ReadFile(filepath.Join(dst, "changes")); string(got) != string(
					data)+"more" {
					t.Error("the target is not what the source is now")
				}
				return
			}
			if err == nil || s.Failed != 1 || s.Files != 1 || s.Deleted != 0 || s.Vanished != 0 {
				t.Fatalf("%+v, %v", s.Totals, err)
			}
			if !strings.Contains(err.Error(), "/src/changes") {
				t.Errorf("it does not say which file: %v", err)
			}
			if got, _ := os.ReadFile(filepath.Join(dst, "changes")); string(got) != string(before) {
				t.Error("the target has half a file")
			}
			if s, err := j.run(t); err != nil || s.Files != 1 || s.Deleted != 1 {
				t.Errorf("again: %+v, %v", s.Totals, err)
			}
			if got, _ := os.ReadFile(filepath.Join(dst, "changes")); string(got) != string(data)+
				"more" {
				t.Error("again: the target is not the source")
			}
		})
	}
}

// With Checksum, hosts that hash files are asked for the hashes, and no contents are sent. On other
// hosts the files are read, and a Note says so. If the contents are equal, only the time is set.
func TestSyncChecksum(t *testing.T) {
	for name, hashes := range map[string]bool{"a host that hashes": true,
		"one that does not": false} {
		for _, direction := range []way{upload, download} {
			t.Run(name+", "+direction.String(), func(t *testing.T) {
				var host pool.Host
				var count *sftptest.Counter
				var far string
				if hashes {
					host, count, far = deltaHost(t, nil)
				} else {
					host, far = hostOf(t, func(files *osfs.FS) server.FS {
						return files
					}, []string{"check-file-handle", "check-file-name"})
				}
				near := t.TempDir()
				src, dst := filepath.Join(near, "tree"), filepath.Join(far, "tree")
				j := &syncJob{direction: direction, far: host, src: src, dst: "/tree",
					options: transfer.SyncOptions{Checksum: true}}
				if direction == download {
					src, dst = dst, src
					j.src, j.dst = "/tree", dst
				}
				fill(t, src, "same", "sub/touched", "differs")
				for _, name := range []string{"same", "sub/touched", "differs"} {
					data, _ := os.ReadFile(filepath.Join(src, name))
					fill(t, dst, name)
					os.WriteFile(filepath.Join(dst, name), data, 0o644)
					os.Chtimes(filepath.Join(dst, name), oldTime, oldTime)
				}
				os.Chtimes(filepath.Join(dst, "sub/touched"), oldTime.AddDate(1, 0, 0),
					oldTime.AddDate(1, 0, 0))
				data, _ := os.ReadFile(filepath.Join(dst, "differs"))
				data[0] ^= 1
				os.WriteFile(filepath.Join(dst, "differs"), data, 0o644)
				os.Chtimes(filepath.Join(dst, "differs"), oldTime, oldTime)
				j.options.DryRun = true // only compares
				j.must(t)
				plan := j.told(transfer.Planned)
				if len(plan) != 2 || plan["differs"] != transfer.ReasonHash ||
					plan["sub/touched"] != transfer.ReasonTouch {
					t.Errorf("planned is %v", plan)
				}
				said := false
				for _, e := range j.events {
					said = said || e.Kind == transfer.Note && strings.Contains(e.Message,
						"does not hash files")
				}
				if said == hashes {
					t.Errorf("whether files are read was announced: %v", said)
				}
				if count != nil {
					if n := count.Counts().PacketsSent[wire.TypeRead]; n > 0 {
						t.Errorf("%d READs were sent to compare what the host can hash", n)
					}
				}
				j.options.DryRun = false
				if s := j.must(t); s.Files != 1 || s.Attrs != 1 {
					t.Errorf("%+v", s.Totals)
				}
				sameTrees(t, src, dst)
			})
		}
	}
}

// A file replaced by something of another type is moved to the backup directory as well.
func TestSyncBackupOfAnotherType(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "name/file")
		fill(t, dst, "name")
		j := &syncJob{direction: direction, far: far, src: src, dst: dst,
			options: transfer.SyncOptions{Delete: true, BackupDir: ".old"}}
		j.must(t)
		if got, err := os.ReadFile(filepath.Join(dst, ".old/name")); err != nil ||
			!strings.HasSuffix(string(got), "name") {
			t.Errorf("the backup is %q, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(dst, "name/file")); err != nil {
			t.Error(err)
		}
	})
}
