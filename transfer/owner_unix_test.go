//go:build unix

package transfer_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// TestOwners: with Owners files and directories get the source's numeric owner and group, in both
// directions and on this machine, and a refusal is an error. Without superuser rights the test only
// sees the refusal.
func TestOwners(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	owners := func(tree *treeJob) { tree.Options.Owners = true }
	source := filepath.Join(b.dir, "source")
	names := []string{".", "small", "large", "deep", "deep/small"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(source, "deep"), 0o755))
	must(os.WriteFile(filepath.Join(source, "small"), random(100), 0o644))
	must(os.WriteFile(filepath.Join(source, "deep", "small"), random(10), 0o644))
	must(os.WriteFile(filepath.Join(source, "large"), random(1<<20), 0o644))

	want := func(i int) (uid, gid int) { return os.Getuid(), os.Getgid() }
	if os.Getuid() == 0 {
		want = func(i int) (uid, gid int) { return 4711 + i, 4811 + i }
		for i, name := range names {
			uid, gid := want(i)
			must(os.Chown(filepath.Join(source, name), uid, gid))
		}
	}
	_, err := b.tree(upload, source, "/target", owners)
	must(err)
	for i, name := range names {
		uid, gid := want(i)
		info, err := b.host.Client.Stat("/target/" + name)
		must(err)
		if stat := info.Sys().(*usftp.FileStat); int(stat.UID) != uid || int(stat.GID) != gid {
			t.Errorf("up: %s belongs to %d:%d, want %d:%d", name, stat.UID, stat.GID, uid, gid)
		}
	}

	if os.Getuid() != 0 {
		must(b.host.Client.Chown("/target/small", 4711, 4711))
		if _, err := b.job(download, "/target/small", filepath.Join(b.dir, "alone"),
			func(j *copyJob) { j.Options.Owners = true }); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("given to a stranger: %v", err)
		}
		return
	}
	for direction, from := range map[way]string{download: "/target",
		local: source} {
		out := filepath.Join(b.dir, direction.String())
		_, err := b.tree(direction, from, out, owners)
		must(err)
		for i, name := range names {
			uid, gid := want(i)
			info, err := os.Lstat(filepath.Join(out, name))
			must(err)
			if stat := info.Sys().(*syscall.Stat_t); int(stat.Uid) != uid || int(stat.Gid) != gid {
				t.Errorf("%s: %s belongs to %d:%d, want %d:%d", direction, name, stat.Uid, stat.Gid,
					uid, gid)
			}
		}
	}
}
