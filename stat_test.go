package usftp_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func TestStatVFS(t *testing.T) {
	client := startServer(t)
	stat, err := client.StatVFS(t.TempDir())
	if err != nil || stat.TotalSpace() == 0 || stat.TotalSpace() < stat.FreeSpace() ||
		stat.Namemax == 0 {
		t.Errorf("%+v, %v", stat, err)
	}
	r := newRig(t, sftptest.Script{Extensions: []wire.ExtensionPair{}}, 0)
	_, err = r.StatVFS("/")
	for what, err := range map[string]error{
		"statvfs": err, "posix-rename": r.PosixRename("/a", "/b"), "link": r.Link("/a", "/b"),
		"lchown": r.Lchown("/", 1, 1),
	} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(r.server.Requests()); n != 1 {
		t.Errorf("%d requests, want INIT alone", n)
	}
}

// wolfSSH answers FAILURE where nothing is; what others mean by it nobody knows.
func TestStatOfNothingAnsweredByFailure(t *testing.T) {
	for version, missing := range map[string]bool{"SSH-2.0-wolfSSHv1.5.0": true, "": false} {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeStat, Do: sftptest.Refuse(wire.Failure, "STAT error")},
			{On: wire.TypeLstat, Do: sftptest.Refuse(wire.Failure, "STAT error")},
		}}, 0, usftp.WithServerVersion(version))
		for what, look := range map[string]func(string) (fs.FileInfo, error){"STAT": r.Stat,
			"LSTAT": r.Lstat} {
			if _, err := look("/none"); errors.Is(err, fs.ErrNotExist) != missing {
				t.Errorf("%q, %s: %v", version, what, err)
			}
		}
	}
}
