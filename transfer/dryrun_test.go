package transfer_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/usftp/usftp/sftptest"
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
