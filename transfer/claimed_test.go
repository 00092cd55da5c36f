package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/usftp/usftp/pool"
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

// TestHoleWhereTheDiskWasFull: a host acknowledges a WRITE in the middle of a file although the disk
// is full. Another file fails for that and makes room, so the first one gets the rest of its data.
// It is copied again, and verified.
func TestHoleWhereTheDiskWasFull(t *testing.T) {
	for _, holes := range []int{1, 2} {
		var b *bench
		var other string
		lost := 0
		fail := sftptest.Call("the other file", func(sftptest.Request) {
			far := b.host
			far.Client = connect(t, b.server.Dial(sftptest.LinkConfig{})).Client
			if _, err := uploadFile(t.Context(), far, other, "/other", transfer.Options{}); err == nil {
				t.Error("the other file is copied")
			}
		})
		b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case r.Type != wire.TypeWrite:
			case strings.Contains(r.Path, "other"):
				return []sftptest.Action{sftptest.Refuse(wire.Failure, "no space")}
			case r.Offset < 100_000 && r.Offset+r.Length > 100_000 && lost < holes:
				lost++
				return []sftptest.Action{fail, sftptest.Refuse(wire.OK, "")}
			}
			return nil
		}}, sftptest.LinkConfig{})
		b.host.Quirks = new(pool.Quirks)
		data := random(300_000)
		other = b.local("other", data)
		_, err := b.job(upload, b.local("file", data), "/file")
		if holes == 1 && (err != nil || !bytes.Equal(b.remote("/file"), data)) {
			t.Errorf("with one hole: %v", err)
		}
		if holes == 2 && !errors.Is(err, transfer.ErrVerify) {
			t.Errorf("with a hole in the second attempt, too: %v", err)
		}
		if left := b.temporaries(); lost != holes || len(left) > 0 {
			t.Errorf("%d holes; %q are left", lost, left)
		}
	}
}

// TestHoleIsNotContinued: of such a file nothing is kept if the copy is interrupted, or if its
// connection is lost.
func TestHoleIsNotContinued(t *testing.T) {
	for _, end := range []string{"interrupted", "lost"} {
		ctx, cancel := context.WithCancel(t.Context())
		var b *bench
		var other string
		ended := false
		fail := sftptest.Call("the other file", func(sftptest.Request) {
			far := b.host
			far.Client = connect(t, b.server.Dial(sftptest.LinkConfig{})).Client
			if _, err := uploadFile(t.Context(), far, other, "/other", transfer.Options{}); err == nil {
				t.Error("the other file is copied")
			}
		})
		b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case r.Type != wire.TypeWrite || ended:
			case strings.Contains(r.Path, "other"):
				return []sftptest.Action{sftptest.Refuse(wire.Failure, "no space")}
			case r.Offset < 100_000 && r.Offset+r.Length > 100_000:
				return []sftptest.Action{fail, sftptest.Refuse(wire.OK, "")}
			case r.Offset > 4_000_000:
				ended = true
				if end == "lost" {
					return []sftptest.Action{sftptest.Hangup()}
				}
				cancel()
			}
			return nil
		}}, sftptest.LinkConfig{})
		b.host.Quirks = new(pool.Quirks)
		data := random(9_000_000)
		other = b.local("other", data[:1000])
		source, journal := b.local("file", data), filepath.Join(b.dir, "journal")
		_, err := b.jobContext(ctx, upload, source, "/file", func(j *copyJob) {
			j.Options.Journal = journal
		})
		if err == nil || !ended {
			t.Errorf("%s: %v", end, err)
		}
		b.host.Client = connect(t, b.server.Dial(sftptest.LinkConfig{})).Client
		result, err := b.job(upload, source, "/file", func(j *copyJob) {
			j.Options.Journal, j.Options.Resume = journal, true
		})
		if err != nil || result.Resumed != 0 || !bytes.Equal(b.remote("/file"), data) {
			t.Errorf("%s: the second run continued from %d: %v", end, result.Resumed, err)
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("%s: %q are left", end, left)
		}
		cancel()
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
