package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestWriteThatIsOnlyClaimed: a host acknowledges the last WRITE of a file although the disk had no
// room for it. The copy fails, and says so, and the old file is kept.
func TestWriteThatIsOnlyClaimed(t *testing.T) {
	for _, size := range []int{20_000, 300_000} {
		for _, way := range []string{"file", "tree", "in place"} {
			t.Run(fmt.Sprint(size, " ", way), func(t *testing.T) {
				b := newBench(t, sftptest.Script{StatVFS: &wire.StatVFSReply{},
					Faults: []sftptest.Fault{{On: wire.TypeWrite, From: uint64(size) - 1, To: 1 << 40,
						Do: sftptest.Refuse(wire.OK, "")}}}, sftptest.LinkConfig{})
				fill(t, b.dir, "in/other")
				source := b.local("in/file", random(size))
				b.server.Files.WriteFile("/out/file", []byte("old"))
				var err error
				switch way {
				case "tree":
					_, err = b.tree(upload, filepath.Join(b.dir, "in"), "/out", func(tree *treeJob) {
						tree.Options.NoTargetDirectory = true
					})
				default:
					_, err = b.job(upload, source, "/out/file", func(j *copyJob) {
						if way == "in place" {
							j.Options.Placement = transfer.PlaceDirect
						}
					})
				}
				if !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("the error is %v", err)
				}
				if got := b.remote("/out/file"); way != "in place" && string(got) != "old" {
					t.Errorf("the target has %d bytes", len(got))
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%q are left", left)
				}
			})
		}
	}
}

// TestHostTellsWrongSizes: where a file that is written seems to be smaller than it is, that is no
// reason to fail, and the next files are not asked about.
func TestHostTellsWrongSizes(t *testing.T) {
	var asked atomic.Int64
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type != wire.TypeFstat || !strings.Contains(r.Path, ".usftp-") {
			return nil
		}
		asked.Add(1)
		few := wire.AttrsReply{Attrs: wire.Attrs{Flags: wire.AttrSize | wire.AttrPermissions, Size: 5,
			Permissions: 0o100644}}
		return []sftptest.Action{sftptest.ReplyBytes(string(few.Append(nil, r.ID)))}
	}}, sftptest.LinkConfig{})
	for _, size := range []int{20_000, 300_000} {
		data := random(size)
		if _, err := b.job(upload, b.local("file", data), "/file"); err != nil ||
			!bytes.Equal(b.remote("/file"), data) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}
