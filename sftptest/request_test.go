package sftptest

import (
	"strings"
	"testing"

	"github.com/usftp/usftp/wire"
)

func TestScriptedRecords(t *testing.T) {
	scripted(t, Script{}, func(server *Scripted, k *kit) {
		server.ForgetRequests()
		h := k.open("/file", wire.OpenRead)
		_ = k.one(h, 2, 3)
		k.write(k.open("/new", create), 1, "xyz")
		k.ok(wire.Rename{OldPath: "/new", NewPath: "/newer"})
		k.symlink("target", "/link")
		k.ok(wire.PosixRename{OldPath: "/newer", NewPath: "/file"})
		k.closeHandle(h)
		var lines []string
		for _, r := range server.Requests() {
			lines = append(lines, r.String())
		}
		want(t, "recorded", strings.Join(lines, "\n"), `OPEN id=1 "/file" flags=0x1
READ id=2 handle=00000001 "/file" 2+3
OPEN id=3 "/new" flags=0xa
WRITE id=4 handle=00000002 "/new" 1+3
RENAME id=5 "/new" "/newer"
SYMLINK id=6 "/link" "target"
EXTENDED posix-rename@openssh.com id=7 "/newer" "/file"
CLOSE id=8 handle=00000001 "/file"`)
		if got := server.Requests(wire.TypeClose, wire.TypeRead); len(got) != 2 ||
			got[0].Type != wire.TypeRead {
			t.Errorf("CLOSE and READ: %v", got)
		}
	})
}
