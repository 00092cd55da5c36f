package transfer_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestTreeThatGivesUpIsTidied: what a tree leaves when its only connection is cut is named, and the
// next run of the same copy removes it all, whether it resumes, goes into the directory that the
// first one made, or starts over in it.
func TestTreeThatGivesUpIsTidied(t *testing.T) {
	for seed := range uint64(20) {
		for _, direction := range []way{upload, download, relay} {
			for _, next := range []string{"resume", "again", "exactly"} {
				if direction != upload && seed%4 != 0 {
					continue // these leave little
				}
				t.Run(fmt.Sprintf("%v %s %d", direction, next, seed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { giveUpAndTidy(t, direction, next, seed) })
				})
			}
		}
	}
}

func giveUpAndTidy(t *testing.T, direction way, next string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	script := sftptest.Script{}
	if rng.IntN(3) == 0 {
		script.Extensions = []wire.ExtensionPair{} // no posix-rename
	}
	link := sftptest.LinkConfig{ToServer: 5 * time.Millisecond, ToClient: 5 * time.Millisecond,
		RateBytesPerSec: 4 << 20}
	b := newBench(t, script, sftptest.LinkConfig{})
	local := b.mixed("source", 120, 600_000, rng)
	if err := os.WriteFile(filepath.Join(local, "large"), random(9<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	job := treeJob{Host: b.host, Direction: direction, Source: local, Target: "/target"}
	job.Options.Journal = filepath.Join(b.dir, "journal")
	switch direction {
	case download:
		job.Source, job.Target = "/source", filepath.Join(b.dir, "target")
	case relay:
		job.Source = "/source"
		from := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		if _, err := uploadTree(t.Context(), from.host, local, "/source", transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		job.From = from.host
	}
	if direction == download {
		if _, err := b.tree(upload, local, "/source"); err != nil {
			t.Fatal(err)
		}
	}
	if next == "exactly" {
		job.Options.NoTargetDirectory = true
		if direction != download { // so that old files are replaced
			if _, err := b.tree(upload, local, "/target"); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.redials(link, func(_ int, end *sftptest.End) {
		time.AfterFunc(time.Duration(60+rng.IntN(1500))*time.Millisecond, func() { end.Cut(nil) })
	})
	job.Host.Client = b.host.Client
	var said []string
	job.Options.Events = func(e transfer.Event) {
		if e.Message != "" {
			said = append(said, e.Message)
		}
	}
	if _, err := job.Run(t.Context()); err == nil {
		t.Fatal("it did not give up")
	}
	left := b.temporaries()
	if len(left) > 0 && !strings.Contains(strings.Join(said, "\n"), ".usftp-") {
		t.Errorf("%d are left, and not named: %q", len(left), said)
	}
	b.reconnect(sftptest.LinkConfig{})
	job.Host = b.host
	job.Options.Resume = next == "resume"
	s, err := job.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if nested := strings.HasSuffix(s.Target, "source"); nested != (next == "again") {
		t.Errorf("it was copied to %s", s.Target)
	}
	if still := b.treeTemporaries(); len(still) > 0 {
		t.Errorf("of %d left behind, %d still are: %q", len(left), len(still), still)
	}
	if notes, _ := filepath.Glob(filepath.Join(b.dir, "journal", "*")); len(notes) > 1 {
		t.Errorf("the journal still holds %q", notes)
	}
	out := s.Target
	if direction != download {
		out = filepath.Join(b.dir, "out")
		if _, err := b.tree(download, s.Target+"/.", out); err != nil {
			t.Fatal(err)
		}
	}
	sameContents(t, local, out)
}

// treeTemporaries is temporaries including those of local trees.
func (b *bench) treeTemporaries() (names []string) {
	names = b.temporaries()
	filepath.WalkDir(b.dir, func(name string, _ os.DirEntry, _ error) error {
		if strings.Contains(filepath.Base(name), ".usftp-") {
			names = append(names, name)
		}
		return nil
	})
	return names
}
