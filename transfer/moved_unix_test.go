//go:build unix

package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A directory of a host that goes away while it is listed has failed: OpenSSH's server leaves out
// what it cannot look at by its path, and the listing then ends as if it were whole.
func TestListedDirectoryGoesAway(t *testing.T) {
	listFile := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(listFile, fmt.Appendf(nil, "%x  kept/file\n",
		hashOf("sha256", []byte("contents")).Sum), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  func(b *bench) (transfer.Summary, error)
	}{
		{"copy", func(b *bench) (transfer.Summary, error) {
			return b.tree(download, "/tree/.", filepath.Join(b.dir, "out"))
		}},
		{"sync", func(b *bench) (transfer.Summary, error) {
			j := &syncJob{direction: download, far: b.host, src: "/tree",
				dst: filepath.Join(b.dir, "out")}
			return j.run(t)
		}},
		{"check", func(b *bench) (transfer.Summary, error) {
			j := checkJob{Host: b.host, Dir: "/tree", Strict: true,
				List: openList(t, listFile, checksum.SHA256)}
			return j.Run(t.Context())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var server *sftptest.Scripted
			var moved atomic.Bool
			b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type != wire.TypeReaddir || r.Path != "/tree/moved" || moved.Swap(true) {
					return nil
				}
				server.Files.Remove("/tree/moved/missed")
				server.Files.Remove("/tree/moved")
				return []sftptest.Action{sftptest.Refuse(wire.EOF, "End of file")}
			}}, sftptest.LinkConfig{})
			server = b.server
			server.Files.WriteFile("/tree/moved/missed", []byte("contents"))
			server.Files.WriteFile("/tree/kept/file", []byte("contents"))
			s, err := test.run(b)
			if !moved.Load() || s.Failed != 1 || s.Files != 1 || !errors.Is(err, fs.ErrNotExist) ||
				!strings.Contains(err.Error(), "moved or removed while it was listed") {
				t.Errorf("%+v, %v", s.Totals, err)
			}
		})
	}
}

// TestListedWhereLstatIsRefused: a host without LSTAT can be copied from. STAT says that a
// directory is still there.
func TestListedWhereLstatIsRefused(t *testing.T) {
	for _, code := range []wire.Code{wire.OpUnsupported, wire.PermissionDenied, wire.Failure} {
		b := newTreeBench(t, sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeLstat, Do: sftptest.Refuse(code, "no")}}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/tree/d/file", []byte("contents"))
		s, err := b.tree(download, "/tree/.", filepath.Join(b.dir, "out"))
		if err != nil || s.Files != 1 || s.Failed != 0 {
			t.Errorf("%v: %+v, %v", code, s.Totals, err)
		}
		b.server.AddFaults(sftptest.Fault{On: wire.TypeStat, Path: "/tree/d",
			Do: sftptest.Refuse(code, "no")})
		s, err = b.tree(download, "/tree/.", filepath.Join(b.dir, "again"))
		if err != nil || s.Files != 1 || s.Failed != 0 {
			t.Errorf("%v: STAT is refused, too: %+v, %v", code, s.Totals, err)
		}
	}
}
