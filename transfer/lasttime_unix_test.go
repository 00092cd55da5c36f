//go:build unix

package transfer_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// TestTimesThatMINACannotTell: Apache MINA sets times after January 2038, but a file or directory
// that has one can no longer be listed, with all that is beside it, and STAT of it ends the
// session. Such files get the last time that it can tell, which is said once; a sync knows them
// again.
func TestTimesThatMINACannotTell(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{},
		usftp.WithServerVersion("SSH-2.0-APACHE-SSHD-2.16.0"))
	source := filepath.Join(b.dir, "source")
	names := []string{"/one", "/dir/two", "/dir", ""}
	fill(t, source, "one", "dir/two")
	late := time.Unix(1<<31, 0)
	for _, name := range names {
		if err := os.Chtimes(source+name, late, late); err != nil {
			t.Fatal(err)
		}
	}
	check := func(target string) {
		t.Helper()
		for _, name := range names {
			attrs, err := b.server.Files.Lstat(target + name)
			if err != nil || attrs.MTime != math.MaxInt32 || attrs.ATime != math.MaxInt32 {
				t.Errorf("%s has the times %d and %d, %v", target+name, attrs.ATime, attrs.MTime, err)
			}
		}
	}
	_, err := b.tree(upload, source, "/copy", func(j *treeJob) { j.Options.Preserve = true })
	if said := b.notes(); err != nil || len(said) != 1 || !strings.Contains(said[0], "2038") {
		t.Errorf("it says %q, %v", said, err)
	}
	check("/copy")

	j := &syncJob{direction: upload, far: b.host, src: source, dst: "/mirror"}
	if s, err := j.run(t); err != nil || s.Files != 2 {
		t.Errorf("sync: %+v, %v", s.Totals, err)
	}
	check("/mirror")
	if s, err := j.run(t); err != nil || s.Kept != 2 || s.Attrs != 0 {
		t.Errorf("the second sync: %+v, %v", s.Totals, err)
	}

	s, err := b.tree(upload, source, "/copy", func(j *treeJob) {
		o := &j.Options
		o.Preserve, o.Update, o.NoTargetDirectory = true, true, true
	})
	if err != nil || s.Files != 0 {
		t.Errorf("a file of the same time counts as older: %+v, %v", s.Totals, err)
	}
}
