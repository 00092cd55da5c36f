package transfer_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// A dry run fails as the real one would if the target's directory is missing or is none, and makes
// nothing.
func TestDryRunLooksAtTheTarget(t *testing.T) {
	for _, direction := range []way{upload, download, local} {
		for _, source := range []string{"tree", "file"} {
			for _, target := range []string{"missing/target", "missing/deep/target", "file/target",
				"file/", "file/deep/target", "missing/", "there/target", "there/", "new"} {
				for _, mkpath := range []bool{false, true} {
					b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
					fill(t, b.dir, "tree/a", "file", "there/b")
					for _, name := range []string{"/tree/a", "/file", "/there/b"} {
						b.server.Files.WriteFile(name, []byte("x"))
					}
					from, to := filepath.Join(b.dir, source), b.dir+"/"+target
					if direction == download {
						from = "/" + source
					} else if direction == upload {
						to = "/" + target
					}
					before := len(b.server.Files.List())
					run := func(dry bool) (said string) {
						if _, err := b.tree(direction, from, to, func(j *treeJob) {
							j.TreeOptions.DryRun, j.Options.MakePath = dry, mkpath
						}); err != nil {
							said = err.Error()
						}
						return said
					}
					dry := run(true)
					_, lookErr := os.Lstat(filepath.Join(b.dir, "missing"))
					if lookErr == nil || len(b.server.Files.List()) != before {
						t.Errorf("%v of the %s to %s: a dry run makes something", direction, source, target)
					}
					// Windows has other words for a file that is in the way.
					if real := run(false); dry != real &&
						(runtime.GOOS != "windows" || dry == "" || real == "") {
						t.Errorf("%v of the %s to %s, with MakePath %v: a dry run says %q, and the "+
							"real one %q", direction, source, target, mkpath, dry, real)
					}
				}
			}
		}
	}
}

// A dry run tells what the run after it does, in the same words, and fails where that fails: with
// names that the target must not have, with directories in the way of files, and with those that
// hold what is not deleted.
func TestDryRunTellsWhatARunDoes(t *testing.T) {
	for name, more := range map[string][]string{
		"all goes well": nil,
		"a bad name":    {`/src/a\..\b`},
		"in the way":    {"/src/full", "/dst/full/x.keep", "/dst/full/x"},
		"empty":         {"/src/void", "/dst/void/"},
	} {
		for _, deletes := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", deletes), func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				for _, name := range append([]string{"/src/new/file", "/src/changed", "/src/same",
					"/src/turned/into", "/dst/changed", "/dst/same", "/dst/turned", "/dst/gone/x",
					"/dst/kept/in/x.keep", "/dst/kept/in/x"}, more...) {
					if dir, isDir := strings.CutSuffix(name, "/"); isDir {
						if err := b.host.Client.MkdirAll(dir); err != nil {
							t.Fatal(err)
						}
						continue
					}
					text := strings.TrimPrefix(name, "/dst") // another size than the source has
					if path.Base(name) == "same" {
						text = "same"
					}
					b.server.Files.WriteFile(name, []byte(text))
				}
				old := time.Now().Add(-time.Hour).Truncate(time.Second)
				for _, name := range []string{"/src/same", "/dst/same"} {
					if err := b.host.Client.Chtimes(name, old, old); err != nil {
						t.Fatal(err)
					}
				}
				j := syncJob{direction: relay, far: b.host, src: "/src", dst: "/dst"}
				j.options.Delete, j.options.MaxDelete = deletes, 100
				j.options.Filter = rules("*.keep")
				said := func(dry bool) (all []string) {
					j.options.DryRun = dry
					_, err := j.run(t)
					all = append(all, fmt.Sprint(err != nil))
					for _, e := range j.events {
						kind := string(e.Kind)
						switch e.Kind {
						case transfer.Planned, transfer.Done, transfer.Deleted:
							kind = "changed"
						case transfer.Failed, transfer.Warning:
						default:
							continue
						}
						if e.Totals == nil && !strings.HasSuffix(e.Target, "/") {
							all = append(all, fmt.Sprint(kind, " ", e.Target, " ", e.Reason, " ", e.Message))
						}
					}
					slices.Sort(all)
					return all
				}
				before := b.server.Files.List()
				dry := said(true)
				if after := b.server.Files.List(); !slices.Equal(after, before) {
					t.Errorf("the dry run changed %q to %q", before, after)
				}
				if real := said(false); !slices.Equal(dry, real) || len(dry) < 4 {
					t.Errorf("a dry run says\n%s\nand the run\n%s", strings.Join(dry, "\n"),
						strings.Join(real, "\n"))
				}
			})
		}
	}
}
