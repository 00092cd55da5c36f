package transfer_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// A copy gets no setuid or setgid bit, and a warning says so if it was to have its source's mode.
func TestSetuidOfTheSource(t *testing.T) {
	without := func(mode fs.FileMode) fs.FileMode { return mode &^ (fs.ModeSetuid | fs.ModeSetgid) }
	for name, test := range map[string]struct {
		attributes transfer.Attributes
		warned     int
	}{
		"preserved":   {transfer.Attributes{Preserve: true}, 2},
		"not":         {transfer.Attributes{}, 0},
		"no modes":    {transfer.Attributes{Preserve: true, NoModes: true}, 0},
		"without one": {transfer.Attributes{Preserve: true, Chmod: without}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			for file, mode := range map[string]fs.FileMode{"setuid": 0o755 | fs.ModeSetuid,
				"setgid": 0o750 | fs.ModeSetgid, "sticky": 0o700 | fs.ModeSticky, "plain": 0o640} {
				b.server.Files.WriteFile("/tree/"+file, []byte(file))
				if err := b.server.Files.SetMode("/tree/"+file, mode); err != nil {
					t.Fatal(err)
				}
			}
			for direction, target := range map[way]string{download: filepath.Join(b.dir, "copy"),
				relay: "/copy"} {
				if _, err := b.tree(direction, "/tree", target, func(j *treeJob) {
					j.From = b.host
					j.Options.Attributes = test.attributes
				}); err != nil {
					t.Fatal(err)
				}
				copied := os.DirFS(b.dir)
				if direction == relay {
					copied = b.host.Client.DirFS("/")
				}
				entries, err := fs.ReadDir(copied, "copy")
				if err != nil || len(entries) != 4 {
					t.Fatal(entries, err)
				}
				for _, e := range entries {
					if info, err := e.Info(); err != nil || info.Mode()&^fs.ModePerm != 0 {
						t.Errorf("%v: %v, %v", direction, info, err)
					}
				}
				warned := 0
				for _, note := range b.notes() {
					if strings.Contains(note, "setuid") {
						warned++
					}
				}
				if warned != test.warned {
					t.Errorf("%v: %d warnings, want %d: %v", direction, warned, test.warned, b.notes())
				}
			}
		})
	}
}

// A setuid program is not replaced by one that runs as another user; if the owner stays the same,
// the bit stays too.
func TestSetuidOfWhatIsReplaced(t *testing.T) {
	const special = fs.ModeSetuid | fs.ModeSetgid
	for name, test := range map[string]struct {
		uid, gid int
		want     fs.FileMode
	}{
		"the same":      {0, 0, special},
		"another owner": {4711, 0, fs.ModeSetgid},
		"another group": {0, 4711, fs.ModeSetuid},
		"another both":  {4711, 4711, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/fresh", nil)
			fresh, err := b.server.Files.Lstat("/fresh")
			if err != nil {
				t.Fatal(err)
			}
			b.server.Files.WriteFile("/target", []byte("old"))
			if err := b.host.Client.Chown("/target", int(fresh.UID)+test.uid,
				int(fresh.GID)+test.gid); err != nil {
				t.Fatal(err)
			}
			if err := b.server.Files.SetMode("/target", 0o755|special); err != nil {
				t.Fatal(err)
			}
			if _, err := b.job(upload, b.local("new", []byte("new")),
				"/target"); err != nil {
				t.Fatal(err)
			}
			info, err := b.host.Client.Stat("/target")
			if err != nil || info.Mode() != 0o755|test.want {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}
