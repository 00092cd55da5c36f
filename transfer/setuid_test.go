package transfer_test

import (
	"io/fs"
	"testing"

	"github.com/usftp/usftp/sftptest"
)

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
