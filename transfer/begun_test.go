package transfer_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestResumeTreeThatMadeItsTarget: the command that was interrupted goes on where it was, though
// its target is a directory by then, and a directory gets copies in it. Without Resume, or once all
// is done, the target means what it means to scp.
func TestResumeTreeThatMadeItsTarget(t *testing.T) {
	for _, direction := range []way{upload, download,
		local} {
		t.Run(direction.String(), func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source := b.sample("source")
			far := filepath.Join(b.dir, "far")
			target := filepath.Join(b.dir, "target")
			from, to := source, target
			switch direction {
			case upload:
				to = "/target"
			case download:
				if _, err := b.tree(upload, source, "/source"); err != nil {
					t.Fatal(err)
				}
				from = "/source"
			}
			journal := filepath.Join(b.dir, "journal")
			run := func(resume bool, stop bool) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tree := treeJob{Host: b.host, Direction: direction, Source: from, Target: to}
				tree.Options.Journal, tree.Options.Resume = journal, resume
				tree.Options.Events = func(e transfer.Event) {
					if stop && e.Kind == transfer.Done {
						cancel()
					}
				}
				_, err := tree.Run(ctx)
				return err
			}
			same := func(below string) {
				t.Helper()
				at := filepath.Join(target, below)
				if direction == upload {
					os.RemoveAll(far)
					if _, err := b.tree(download, "/target/"+below+"/.", far); err != nil {
						t.Fatal(err)
					}
					at = far
				}
				sameTrees(t, source, at)
				sameContents(t, source, at)
			}
			if err := run(false, true); err == nil {
				t.Fatal("it was not interrupted")
			}
			if err := run(true, true); err == nil {
				t.Fatal("it was not interrupted again")
			}
			if err := run(true, false); err != nil {
				t.Fatal(err)
			}
			same("")
			if notes, _ := os.ReadDir(journal); len(notes) != 0 {
				t.Errorf("%d notes are left", len(notes))
			}
			if err := run(true, false); err != nil { // it is complete, so this is another copy
				t.Fatal(err)
			}
			same("source")
			if notes, _ := os.ReadDir(journal); len(notes) != 0 {
				t.Errorf("%d notes are left", len(notes))
			}
		})
	}
}
