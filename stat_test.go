package usftp_test

import (
	"errors"
	"testing"

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
