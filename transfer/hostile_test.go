package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

func names(r sftptest.Request, names ...wire.Name) []sftptest.Action {
	return []sftptest.Action{sftptest.ReplyBytes(string(wire.Names{Names: names}.Append(nil,
		r.ID)))}
}

// TestFileWithoutEnd: if a server announces a small file and sends data without end, the copy gives
// up early and leaves nothing.
func TestFileWithoutEnd(t *testing.T) {
	var reads atomic.Int64
	script := sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type != wire.TypeRead {
			return nil
		}
		if reads.Add(1) > 500 {
			return []sftptest.Action{sftptest.Hangup()}
		}
		return []sftptest.Action{
			sftptest.ReplyBytes(string(wire.Data{Data: bytes.Repeat([]byte("x"),
				int(r.Length))}.Append(nil, r.ID)))}
	}}
	for name, options := range map[string]transfer.Options{"plain": {}, "sparse": {Contents: transfer.Contents{Sparse: true}},
		"hashed": {Hash: checksum.SHA256}} {
		reads.Store(0)
		b := newBench(t, script, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/source", random(10))
		_, err := b.job(download, "/source", filepath.Join(b.dir, "target"),
			func(j *copyJob) {
				options.Events = j.Options.Events
				j.Options = options
			})
		if !errors.Is(err, transfer.ErrSourceChanged) || reads.Load() > 100 {
			t.Errorf("%s: %d reads, %v", name, reads.Load(), err)
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("%s: left behind: %q", name, left)
		}
	}
	reads.Store(0)
	b := newRelayBench(t, script, sftptest.Script{}, sftptest.LinkConfig{})
	b.from.server.Files.WriteFile("/source", random(10))
	if _, err := b.copy("/source", "/target", transfer.Options{}); !errors.Is(err,
		transfer.ErrSourceChanged) || reads.Load() > 100 {
		t.Errorf("%d reads, %v", reads.Load(), err)
	}
	b.clean()
}

// TestShortWithoutAttributes: a server that ends a file early, and then refuses to state its size
// again, is held to the size it announced first.
func TestShortWithoutAttributes(t *testing.T) {
	ended := false
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		switch {
		case r.Type == wire.TypeRead && r.Offset >= 500_000:
			ended = true
			return []sftptest.Action{sftptest.Refuse(wire.EOF, "")}
		case ended && (r.Type == wire.TypeFstat || r.Type == wire.TypeStat ||
			r.Type == wire.TypeLstat):
			return []sftptest.Action{sftptest.Refuse(wire.OpUnsupported, "")}
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/source", random(1_000_000))
	if r, err := b.job(download, "/source", filepath.Join(b.dir, "target")); err == nil {
		t.Errorf("%d bytes of 1000000 are taken for all", r.Bytes)
	}
}

// TestTreeInPlaceFollowsNoLink: writing in place below the target follows no links, whether they
// existed before or the server sent them ahead of the file.
func TestTreeInPlaceFollowsNoLink(t *testing.T) {
	for _, before := range []bool{false, true} {
		listed := false
		link := wire.Name{Filename: "x", Attrs: wire.Attrs{Flags: wire.AttrPermissions,
			Permissions: 0o120777}}
		file := wire.Name{Filename: "x",
			Attrs: wire.Attrs{Flags: wire.AttrPermissions | wire.AttrSize, Permissions: 0o100644,
				Size: 3}}
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case r.Type == wire.TypeReaddir && !listed:
				listed = true
				if before {
					return names(r, file)
				}
				return names(r, link, file, file)
			case r.Type == wire.TypeReadlink:
				return names(r, wire.Name{Filename: "precious"})
			}
			return nil
		}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/tree/x", []byte("bad"))
		out := filepath.Join(b.dir, "out")
		os.Mkdir(out, 0o755)
		os.WriteFile(filepath.Join(out, "precious"), []byte("good"), 0o600)
		if before {
			os.Symlink("precious", filepath.Join(out, "x"))
		}
		s, err := b.tree(download, "/tree/.", out,
			func(tree *treeJob) { tree.Options.Placement = transfer.PlaceDirect })
		if got, _ := os.ReadFile(filepath.Join(out, "precious")); string(got) != "good" {
			t.Errorf("link before %v: it wrote %q through a link: %+v, %v", before, got, s.Totals,
				err)
		}
		if before {
			if got, readErr := os.ReadFile(filepath.Join(out, "x")); string(got) != "bad" {
				t.Errorf("the link was not replaced: %q, %v; %+v, %v", got, readErr, s.Totals, err)
			}
		}
	}
}

// TestRenameDoneAndRefused: if a rename was executed but reported as failed, the error does not
// claim that the data is still under the old name.
func TestRenameDoneAndRefused(t *testing.T) {
	b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeExtended,
		Extension: wire.ExtPosixRename, Do: sftptest.Fail(wire.Failure, "no")}}},
		sftptest.LinkConfig{})
	result, err := b.job(upload, b.local("source", random(1000)), "/target")
	if err == nil || !strings.Contains(err.Error(), "which is gone") || result.LeftBehind != "" {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestPatternsOfManyStars: no pattern takes long, however deep a server's tree is.
func TestPatternsOfManyStars(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/tree"+strings.Repeat("/a", 120)+"/x", nil)
	s, err := b.tree(download, "/tree", filepath.Join(b.dir, "out"),
		func(tree *treeJob) {
			tree.TreeOptions.Filter = rules(strings.Repeat("**/a/", 12)+"b",
				strings.Repeat("**/", 20)+"b", "+ "+strings.Repeat("**/a/**/", 12)+"x", "+ */", "*")
		})
	if err != nil || s.Files != 1 {
		t.Errorf("%+v, %v", s.Totals, err)
	}
}

// TestJournalThatLies: a mark in the journal can only make us remove files named like the target's
// temporary files.
func TestJournalThatLies(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		for _, lie := range []string{
			`{"temporary":"/precious","bytes":5,"source_size":7}`,
			`{"temporary":"/../precious","bytes":9223372036854775807,"source_size":2097152}`,
			`{"temporary":"/precious`, strings.Repeat("[", 1<<20), "null", "",
		} {
			synctest.Test(t, func(t *testing.T) {
				link := sftptest.LinkConfig{RateBytesPerSec: 1 << 20}
				b := newBench(t, sftptest.Script{}, link)
				data := random(2 << 20)
				source, target := "/source", filepath.Join(b.dir, "target")
				b.server.Files.WriteFile("/source", data)
				if direction == upload {
					source, target = b.local("source", data), "/target"
				}
				b.local("precious", data)
				b.server.Files.WriteFile("/precious", data)
				journal := func(j *copyJob) {
					j.Options.Journal,
						j.Options.Resume = filepath.Join(b.dir, "journal"), true
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				b.jobContext(ctx, direction, source, target, journal)
				marks, _ := filepath.Glob(filepath.Join(b.dir, "journal", "*"))
				if len(marks) != 1 {
					t.Fatalf("%d marks", len(marks))
				}
				if err := os.WriteFile(marks[0], []byte(lie), 0o600); err != nil {
					t.Fatal(err)
				}
				b.reconnect(link)
				if _, err := b.job(direction, source, target, journal); err != nil {
					t.Errorf("%.20q: %v", lie, err)
				}
				if _, err := os.Stat(filepath.Join(b.dir, "precious")); err != nil {
					t.Errorf("%.20q: %v", lie, err)
				}
				if _, err := b.server.Files.ReadFile("/precious"); err != nil {
					t.Errorf("%.20q: %v", lie, err)
				}
				if !bytes.Equal(b.arrived(direction), data) {
					t.Errorf("%.20q: the target differs", lie)
				}
			})
		}
	}
}

// TestServersOfFewHandles: no more directories and files are open at once than the server says it
// allows, if that is two or more.
func TestServersOfFewHandles(t *testing.T) {
	t.Parallel()
	for _, most := range []uint64{2, 3, 5, 17} {
		for _, verify := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{
					Limits: &wire.LimitsReply{MaxOpenHandles: most}}, sftptest.LinkConfig{})
				for i := range 30 {
					b.server.Files.WriteFile(fmt.Sprintf("/source/%d/%d", i%7, i), random(i*10_000))
				}
				s, err := b.tree(download, "/source", filepath.Join(b.dir, "out"),
					func(tree *treeJob) { tree.Options.Verify = verify })
				if err != nil || s.Files != 30 {
					t.Errorf("%d handles, verify %v: %+v, %v", most, verify, s.Totals, err)
				}
			})
		}
	}
}

// TestTargetRemovedMeanwhile: if a temporary file was removed with its directory, the error does
// not claim that it is there.
func TestTargetRemovedMeanwhile(t *testing.T) {
	for _, direction := range []way{upload, download} {
		var b *bench
		dir := ""
		b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeWrite {
				b.server.Files.Remove(r.Path)
			}
			if r.Type == wire.TypeRead && dir != "" {
				os.RemoveAll(dir)
			}
			return nil
		}}, sftptest.LinkConfig{})
		dir = filepath.Join(b.dir, "dir")
		os.Mkdir(dir, 0o755)
		b.server.Files.WriteFile("/source", random(1000))
		source, target := "/source", filepath.Join(dir, "target")
		if direction == upload {
			source, target = b.local("source", random(1000)), "/target"
		}
		result, err := b.job(direction, source, target)
		if err == nil || result.LeftBehind != "" ||
			!strings.Contains(err.Error(), "which is gone") {
			t.Errorf("%v: %+v, %v", direction, result, err)
		}
	}
}

// TestServerThatLosesUploads: a server that hangs up whenever a file is to be renamed, and then has
// lost the file, is not sent it forever.
func TestServerThatLosesUploads(t *testing.T) {
	for _, gone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var renames atomic.Int32
			var b *bench
			b = newTreeBench(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Extension != wire.ExtPosixRename {
						return nil
					}
					if renames.Add(1); gone {
						b.server.Files.Remove(r.Path)
					}
					return []sftptest.Action{sftptest.Hangup()}
				}}, sftptest.LinkConfig{})
			b.redials(sftptest.LinkConfig{}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err := b.jobContext(ctx, upload, b.local("source", random(1000)), "/target",
				func(j *copyJob) { j.Options.Retries = 3 })
			if err == nil || ctx.Err() != nil || renames.Load() > 6 {
				t.Errorf("forgotten %v: %d renames, %v", gone, renames.Load(), err)
			}
		})
	}
}

// TestSizesThatLie: impossible file sizes still add up to a valid number of bytes.
func TestSizesThatLie(t *testing.T) {
	listed := false
	b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type != wire.TypeReaddir || listed {
			return nil
		}
		listed = true
		var all []wire.Name
		for i, size := range []uint64{1<<63 - 1, 1<<63 - 1, 1<<64 - 1, 1 << 63, 1<<63 - 1, 7} {
			all = append(all, wire.Name{Filename: fmt.Sprint(i),
				Attrs: wire.Attrs{Flags: wire.AttrPermissions | wire.AttrSize,
					Permissions: 0o100644, Size: size}})
		}
		return names(r, all...)
	}}, sftptest.LinkConfig{})
	b.server.Files.Mkdir("/tree")
	s, err := b.tree(download, "/tree", filepath.Join(b.dir, "out"),
		func(tree *treeJob) { tree.TreeOptions.DryRun = true })
	if err != nil || s.PlannedFiles != 6 || s.PlannedBytes < 1<<61 {
		t.Errorf("%+v, %v", s.Totals, err)
	}
}
