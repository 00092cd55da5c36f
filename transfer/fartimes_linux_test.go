package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/transfer"
)

// TestTimesThatGoDoesNotSet: package os sets a file's time wrongly, without an error, if it is more
// than 292 years from 1970. The nearest is set instead, which is said once, and a sync takes it for
// the same time.
func TestTimesThatGoDoesNotSet(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(2300, 1, 1, 0, 0, 0, 5, time.UTC), time.Date(1600, 1, 1, 0, 0, 0, 5, time.UTC),
	} {
		source, target := t.TempDir(), t.TempDir()
		fill(t, source, "dir/a", "b")
		far := unix.Timespec{Sec: at.Unix(), Nsec: 5}
		for _, name := range []string{"dir/a", "b", "dir"} {
			name = filepath.Join(source, name)
			err := unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{far, far}, 0)
			if info, statErr := os.Stat(name); err != nil || statErr != nil ||
				!info.ModTime().Equal(at) {
				testenv.Unavailable(t, "a file system with such times")
			}
		}
		said, copied := 0, 0
		o := transfer.SyncOptions{}
		o.Events = func(e transfer.Event) {
			if e.Kind == transfer.Warning && strings.Contains(e.Message, "1678") {
				said++
			}
		}
		for run := range 2 {
			s, err := transfer.Sync(t.Context(), transfer.Local(target), transfer.Local(source), o)
			if err != nil {
				t.Fatal(err)
			}
			if copied = int(s.Files); copied != 2-2*run {
				t.Errorf("%v: run %d copied %d files", at, run, copied)
			}
		}
		info, err := os.Stat(filepath.Join(target, "b"))
		if err != nil || info.ModTime().Sub(at).Abs() > 80*366*24*time.Hour || said == 0 {
			t.Errorf("%v: %v, %v; %d warnings", at, info.ModTime(), err, said)
		}
	}
}
