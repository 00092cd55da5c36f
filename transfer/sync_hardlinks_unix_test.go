//go:build unix

package transfer_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Two names of one file in the target end up as two files if the source has two, and a snapshot
// that was made with hard links keeps its contents and attributes.
func TestSyncSeparatesHardLinks(t *testing.T) {
	for name, prepare := range map[string]func(a, b string) error{
		"contents": func(a, b string) error { return os.WriteFile(a, []byte("longer"), 0o644) },
		"time":     func(a, b string) error { return os.Chtimes(a, time.Time{}, oldTime.Add(time.Hour)) },
		"mode":     func(a, b string) error { return os.Chmod(a, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, direction way, far pool.Host) {
				if direction != download && direction != local {
					return // hosts do not say how many names a file has
				}
				dir := t.TempDir()
				j := &syncJob{direction: direction, far: far, src: filepath.Join(dir, "src"),
					dst: filepath.Join(dir, "dst")}
				snapshot := filepath.Join(dir, "snapshot")
				for _, in := range []string{j.src, snapshot, j.dst} {
					if err := os.Mkdir(in, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				for _, file := range []string{"a", "b"} {
					if err := os.WriteFile(filepath.Join(j.src, file), []byte("equal"),
						0o644); err != nil {
						t.Fatal(err)
					}
					if err := os.Chtimes(filepath.Join(j.src, file), oldTime, oldTime); err != nil {
						t.Fatal(err)
					}
				}
				j.must(t)
				a := filepath.Join(j.dst, "a")
				for _, other := range []string{filepath.Join(j.dst, "b"),
					filepath.Join(snapshot, "a")} {
					os.Remove(other)
					if err := os.Link(a, other); err != nil {
						t.Fatal(err)
					}
				}
				before := census(t, snapshot, true)[1]
				if err := prepare(filepath.Join(j.src, "a"), filepath.Join(j.src, "b")); err != nil {
					t.Fatal(err)
				}
				j.options = transfer.SyncOptions{Checksum: name == "time"}
				j.must(t)
				sameTrees(t, j.src, j.dst)
				if now := census(t, snapshot, true)[1]; now != before {
					t.Errorf("the snapshot has %s, had %s", now, before)
				}
				if again := j.must(t); again.Files+again.Attrs > 0 {
					t.Errorf("the next run does %+v", again.Totals)
				}
			})
		})
	}
}

// A dry run announces a file with other names as what it will be: copied.
func TestSyncPlansHardLinksAsCopies(t *testing.T) {
	dir := t.TempDir()
	j := &syncJob{direction: local, src: filepath.Join(dir, "src"), dst: filepath.Join(dir, "dst")}
	fill(t, j.src, "one", "two")
	j.must(t)
	for _, name := range []string{"one", "two"} {
		if err := os.Chmod(filepath.Join(j.src, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(j.dst, "two"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	j.options.DryRun = true
	planned := j.must(t)
	reasons := j.told(transfer.Planned)
	j.options.DryRun = false
	done := j.must(t)
	if planned.Attrs != 1 || done.Attrs != planned.Attrs || done.Files != 1 ||
		planned.PlannedFiles-planned.Kept != 1 ||
		reasons["two"] != transfer.ReasonMode {
		t.Errorf("planned %+v for %v, done %+v", planned.Totals, reasons, done.Totals)
	}
}
