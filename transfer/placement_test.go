package transfer_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestOnlyARefusedNameIsWrittenInPlace: if a temporary file cannot be created for any reason but
// its name, the target keeps its contents. Written in place it would be lost.
func TestOnlyARefusedNameIsWrittenInPlace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code    wire.Code
		message string
		inPlace bool
		reason  bool // of the server's own, which the target's name would not change
	}{
		{code: wire.PermissionDenied, inPlace: true},
		{code: wire.BadMessage, inPlace: true},
		{code: wire.InvalidFilename, inPlace: true},
		{code: wire.Failure, message: "open: File name too long", inPlace: true},
		{code: wire.Failure},
		{code: wire.Failure, message: "Failure"},
		{code: wire.Failure, message: "General failure."},
		{code: wire.Failure, message: "no space left on device", reason: true},
		{code: wire.Failure, message: "Failure: Disk quota exceeded", reason: true},
		{code: wire.Failure, message: "EICAR found, upload rejected", reason: true},
		{code: wire.NoSpaceOnFilesystem, reason: true},
		{code: wire.QuotaExceeded, reason: true},
		{code: wire.OpUnsupported},
		{code: 99},
	} {
		refuse := sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && strings.Contains(r.Path, ".usftp-") {
				return []sftptest.Action{sftptest.Refuse(test.code, test.message)}
			}
			return nil
		}}
		check := func(t *testing.T, b *bench, target string, inPlace bool, err error) {
			t.Helper()
			want := "old"
			if test.inPlace {
				want = "new"
			}
			if got := string(b.remote(target)); got != want {
				t.Errorf("%s holds %q, want %q", target, got, want)
			}
			if (err == nil) != test.inPlace || inPlace != test.inPlace {
				t.Errorf("in place: %v, %v", inPlace, err)
			}
			if err != nil && strings.Contains(err.Error(), "transfer.PlaceDirect") == test.reason {
				t.Errorf("advice to write in place, where that helps, in: %v", err)
			}
			if len(b.temporaries()) > 0 {
				t.Errorf("left behind: %v", b.temporaries())
			}
		}
		name := fmt.Sprintf("%v %s", test.code, test.message)
		t.Run("upload "+name, func(t *testing.T) {
			b := newBench(t, refuse, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/target", []byte("old"))
			result, err := b.job(upload, b.local("source", []byte("new")), "/target")
			check(t, b, "/target", result.InPlace, err)
		})
		t.Run("relay "+name, func(t *testing.T) {
			b := newBench(t, refuse, sftptest.LinkConfig{})
			from := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			from.server.Files.WriteFile("/source", []byte("new"))
			b.server.Files.WriteFile("/target", []byte("old"))
			result, err := b.job(relay, "/source", "/target",
				func(j *copyJob) { j.From = from.host })
			check(t, b, "/target", result.InPlace, err)
		})
		t.Run("tree "+name, func(t *testing.T) {
			b := newBench(t, refuse, sftptest.LinkConfig{})
			if err := os.Mkdir(filepath.Join(b.dir, "tree"), 0o755); err != nil {
				t.Fatal(err)
			}
			b.server.Files.Mkdir("/tree")
			for _, name := range []string{"a", "b", "c"} {
				b.local("tree/"+name, []byte("new"))
				b.server.Files.WriteFile("/tree/"+name, []byte("old"))
			}
			_, err := uploadTree(t.Context(), b.host, filepath.Join(b.dir, "tree")+"/.",
				"/tree", transfer.Options{})
			for _, name := range []string{"a", "b", "c"} {
				check(t, b, "/tree/"+name, test.inPlace, err)
			}
		})
	}
}

// TestReplaceLink: a link at a file's target gives way to the file, or, where that would have to be
// written in place, stops the copy. What it leads to stays as it is.
func TestReplaceLink(t *testing.T) {
	for _, to := range []way{upload, download} {
		for _, placed := range []transfer.Placement{transfer.PlaceAuto, transfer.PlaceDirect} {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source, target := b.local("source", []byte("new")), "/target"
			b.server.Files.WriteFile("/other", []byte("other"))
			b.server.Files.Symlink("other", "/target")
			if to == download {
				source, target = "/source", filepath.Join(b.dir, "target")
				b.server.Files.WriteFile("/source", []byte("new"))
				b.local("other", []byte("other"))
				testenv.Symlink(t, "other", target)
			}
			_, err := b.job(to, source, target, func(j *copyJob) {
				j.Options.Placement, j.Options.ReplaceLink = placed, true
			})
			read := b.remote
			if to == download {
				read = b.read
			}
			want := "new"
			if placed == transfer.PlaceDirect {
				want = "other"
			}
			if got := string(read(filepath.Base(target))); got != want || (err == nil) != (want == "new") {
				t.Errorf("%v, %v: the target holds %q, %v", to, placed, got, err)
			}
			if got := string(read("other")); got != "other" {
				t.Errorf("%v, %v: what the link led to holds %q", to, placed, got)
			}
		}
	}
}

// TestOldFileWhereNothingIsRenamed: where no file gets another name, an old one is written in
// place, and nothing is said of an interrupted copy, though the journal knew how far this one had
// come.
func TestOldFileWhereNothingIsRenamed(t *testing.T) {
	for _, removes := range []bool{true, false} {
		denied := []wire.Type{wire.TypeRename}
		if !removes {
			denied = append(denied, wire.TypeRemove)
		}
		b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if slices.Contains(denied, r.Type) {
					return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
				}
				return nil
			}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/target", []byte("an older file"))
		result, err := b.job(upload, b.local("source", []byte("new")), "/target",
			func(j *copyJob) { j.Options.Journal = filepath.Join(b.dir, "journal") })
		if err != nil || !result.InPlace || string(b.remote("/target")) != "new" {
			t.Errorf("%+v, %v", result, err)
		}
		for _, note := range b.notes() {
			if strings.Contains(note, "interrupted") {
				t.Errorf("it said %q", note)
			}
		}
		if left := b.temporaries(); (len(left) == 0) != removes {
			t.Errorf("%q is left", left)
		}
	}
}

// TestRefusedRenameIsNoReasonToWriteInPlace: a host that failed to rename one file for an unknown
// reason may be full, if it makes no other file either, or may refuse that name: existing files
// keep their contents. A new one has nothing to lose.
func TestRefusedRenameIsNoReasonToWriteInPlace(t *testing.T) {
	for name, refuses := range map[string]func(r sftptest.Request, second bool) bool{
		"full": func(r sftptest.Request, second bool) bool { return renames(r) || second },
		"to that name": func(r sftptest.Request, _ bool) bool {
			return renames(r) && !strings.Contains(r.Path2, ".usftp-")
		},
	} {
		t.Run(name, func(t *testing.T) { testOldFilesStay(t, refuses) })
	}
}

// testOldFilesStay has refuses decide what fails. second is set if a file is to be made that would
// be the second temporary one of its target.
func testOldFilesStay(t *testing.T, refuses func(r sftptest.Request, second bool) bool) {
	var mu sync.Mutex
	has := make(map[string]bool)
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		mu.Lock()
		defer mu.Unlock()
		target, _, temporary := strings.Cut(r.Path, ".usftp-")
		made := temporary && r.Type == wire.TypeOpen
		if refuses(r, made && has[target]) {
			return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
		}
		has[target] = has[target] || made
		return nil
	}}, sftptest.LinkConfig{})
	if err := os.Mkdir(filepath.Join(b.dir, "tree"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.server.Files.Mkdir("/tree")
	for i := range 40 {
		b.local(fmt.Sprint("tree/", i), []byte("new"))
		if i > 0 {
			b.server.Files.WriteFile(fmt.Sprint("/tree/", i), []byte("old"))
		}
	}
	tree := treeJob{Host: b.host, Source: filepath.Join(b.dir, "tree") + "/.",
		Target: "/tree", TreeOptions: transfer.TreeOptions{MaxFiles: 1}}
	if summary, err := tree.Run(t.Context()); err == nil || summary.Files != 1 ||
		string(b.remote("/tree/0")) != "new" {
		t.Errorf("%+v, %v", summary, err)
	}
	for i := 1; i < 40; i++ {
		if got := string(b.remote(fmt.Sprint("/tree/", i))); got != "old" {
			t.Errorf("file %d holds %q", i, got)
		}
	}
}

// TestRenameLostThenRefused: if a connection is lost with a rename, and the next one refuses every
// rename, the old file has not become the new one, though it has the new one's size.
func TestRenameLostThenRefused(t *testing.T) {
	var asked atomic.Int32
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		switch {
		case !renames(r):
			return nil
		case asked.Add(1) == 1:
			return []sftptest.Action{sftptest.Hangup()}
		}
		return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
	}}, sftptest.LinkConfig{})
	b.redials(sftptest.LinkConfig{}, nil)
	b.server.Files.WriteFile("/target", []byte("old"))
	result, err := b.job(upload, b.local("source", []byte("new")), "/target", func(j *copyJob) {
		j.Options.Retry = pool.Retry{Retries: 3, Backoff: func(int) time.Duration { return 0 }}
	})
	if got := string(b.remote("/target")); err != nil || !result.InPlace || got != "new" {
		t.Errorf("the file is %q: %+v, %v", got, result, err)
	}
	if left := b.temporaries(); len(left) > 0 || asked.Load() < 2 {
		t.Errorf("%q is left after %d renames", left, asked.Load())
	}
}

// TestOldFileIsGone: a host that replaces nothing by renaming gives a file its name all the same if
// others have removed the old one meanwhile.
func TestOldFileIsGone(t *testing.T) {
	var b *bench
	b = newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeWrite {
				b.server.Files.Remove("/target")
			}
			return nil
		}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	_, err := b.job(upload, b.local("source", []byte("new")), "/target")
	if err != nil || string(b.remote("/target")) != "new" {
		t.Error(err)
	}
	if left := b.temporaries(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestRenameLostAfterTheSource: a complete file gets its name over the next connection, even if the
// source is gone by then.
func TestRenameLostAfterTheSource(t *testing.T) {
	for name, lost := range map[string]sftptest.Action{"carried out": sftptest.Truncate(0),
		"not carried out": sftptest.Hangup()} {
		for _, direction := range []way{upload, relay} {
			t.Run(fmt.Sprint(name, " ", direction), func(t *testing.T) {
				var asked atomic.Bool
				var b *bench
				source := filepath.Join(t.TempDir(), "source")
				if direction == relay {
					source = "/source"
				}
				b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if !renames(r) || asked.Swap(true) {
						return nil
					}
					os.Remove(source)
					b.server.Files.Remove(source)
					return []sftptest.Action{lost}
				}}, sftptest.LinkConfig{})
				b.redials(sftptest.LinkConfig{}, nil)
				data := random(300_000)
				os.WriteFile(source, data, 0o644)
				b.server.Files.WriteFile("/source", data)
				result, err := b.job(direction, source, "/target", func(j *copyJob) {
					j.From = b.host
					j.Options.Retry = pool.Retry{Retries: 3, Backoff: func(int) time.Duration { return 0 }}
				})
				if err != nil || result.Bytes != int64(len(data)) {
					t.Fatalf("%+v, %v", result, err)
				}
				if !bytes.Equal(b.remote("/target"), data) {
					t.Error("the target differs")
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("%q is left", left)
				}
			})
		}
	}
}

// TestRenameLostAfterAPipe: so does what came from a pipe, and if it is gone from the host, the
// rest of the pipe does not pass for it.
func TestRenameLostAfterAPipe(t *testing.T) {
	for name, test := range map[string]struct {
		lost    sftptest.Action
		offered []wire.ExtensionPair
		gone    bool
	}{
		"carried out":              {lost: sftptest.Truncate(0)},
		"not carried out":          {lost: sftptest.Hangup()},
		"without posix-rename":     {lost: sftptest.Truncate(0), offered: []wire.ExtensionPair{}},
		"without it, not executed": {lost: sftptest.Hangup(), offered: []wire.ExtensionPair{}},
		"gone":                     {lost: sftptest.Hangup(), gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Bool
			var b *bench
			b = newBench(t, sftptest.Script{Extensions: test.offered,
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if !renames(r) || asked.Swap(true) {
						return nil
					}
					if test.gone {
						b.server.Files.Remove(r.Path)
					}
					return []sftptest.Action{test.lost}
				}}, sftptest.LinkConfig{})
			b.redials(sftptest.LinkConfig{}, nil)
			b.server.Files.WriteFile("/target", []byte("old"))
			result, err := b.job(upload, "", "/target", func(j *copyJob) {
				j.Reader = io.MultiReader(strings.NewReader("data"))
				j.Options.Retry = pool.Retry{Retries: 3, Backoff: func(int) time.Duration { return 0 }}
			})
			want := "data"
			if test.gone {
				want = "old"
			}
			if (err != nil) != test.gone || string(b.remote("/target")) != want {
				t.Errorf("the target holds %q: %+v, %v", b.remote("/target"), result, err)
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}
