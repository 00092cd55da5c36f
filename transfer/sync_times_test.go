package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// A file, a directory and the source itself may have times that SFTP does not have. They are synced
// all the same, the next run does nothing, and extras are deleted.
func TestSyncOfTimesThatHostsDoNotHave(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for name, when := range map[string]time.Time{
			"1904": time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC),
			"1969": time.Unix(-1, 0),
			"2100": time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
			"2150": time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				j := &syncJob{direction: direction, far: far, src: filepath.Join(dir, "src"),
					dst:     filepath.Join(dir, "dst"),
					options: transfer.SyncOptions{Delete: true}}
				fill(t, j.src, "file", "sub/file")
				fill(t, j.dst, "extra")
				for _, name := range []string{"file", "sub", "."} {
					name := filepath.Join(j.src, name)
					if err := os.Chtimes(name, when, when); err != nil {
						t.Fatal(err)
					}
					if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(when) {
						testenv.Unavailable(t, "a file system that has such times")
					}
				}
				if s := j.must(t); s.Files != 2 || s.Deleted != 1 {
					t.Errorf("%+v", s.Totals)
				}
				warned := 0
				for _, e := range j.events {
					if e.Kind == transfer.Warning && strings.Contains(e.Message, "before 1970") {
						warned++
					}
				}
				// a host shows 1904 as 2040, and 2100 is read as 1964
				if inexact := direction == upload && name != "2100" ||
					direction == relay && (name == "1969" || name == "2100"); inexact != (warned == 1) {
					t.Errorf("%d warnings", warned)
				}
				if again := j.must(t); again.Files+again.Attrs+again.Deleted > 0 {
					t.Errorf("the next run does %+v", again.Totals)
				}
				if direction == local {
					sameTrees(t, j.src, j.dst)
				}
			})
		}
	})
}

// A local target has times before 1970. One of exactly 1970 does not stand for them.
func TestSyncOverAFileFrom1970(t *testing.T) {
	dir := t.TempDir()
	j := &syncJob{direction: local, src: filepath.Join(dir, "src"), dst: filepath.Join(dir, "dst")}
	fill(t, j.src, "file")
	fill(t, j.dst, "file") // as long, with other contents
	for name, when := range map[string]time.Time{j.src: time.Unix(-100_000, 0),
		j.dst: time.Unix(0, 0)} {
		if err := os.Chtimes(filepath.Join(name, "file"), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if s := j.must(t); s.Files != 1 {
		t.Errorf("%+v", s.Totals)
	}
	sameTrees(t, j.src, j.dst)
}

// Update compares times that are more than 68 years apart by which is later, too.
func TestSyncUpdateOverDecades(t *testing.T) {
	t.Parallel()
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for name, c := range map[string]struct {
			src, dst time.Time
			copied   bool
		}{
			"newer by 75 years": {year(2015), year(2090), false},
			"older by 75 years": {year(2035), year(1960), true},
			"from 1960":         {year(1960), year(2035), false},
			"new in the end":    {year(2037), year(1970), true},
		} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				j := &syncJob{direction: direction, far: far, src: filepath.Join(dir, "src"),
					dst: filepath.Join(dir, "dst")}
				j.options.Update = true
				fill(t, j.src, "file")
				fill(t, j.dst, "file")
				for name, when := range map[string]time.Time{j.src: c.src, j.dst: c.dst} {
					name = filepath.Join(name, "file")
					if err := os.Chtimes(name, when, when); err != nil {
						t.Fatal(err)
					}
					if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(when) {
						testenv.Unavailable(t, "a file system that has such times")
					}
				}
				if s := j.must(t); (s.Files == 1) != c.copied {
					t.Errorf("%d files were copied", s.Files)
				}
			})
		}
	})
}
