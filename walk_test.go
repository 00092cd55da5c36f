package usftp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// tree makes a tree of files with names that sort awkwardly, and returns its paths.
func tree(rng *rand.Rand, root string, depth int, make func(name string, dir bool)) {
	names := []string{"a", "a-b", "a b", "a.b", "b", "B", "ab", "a!", "z", "ä", "0"}
	for _, i := range rng.Perm(len(names))[:2+rng.IntN(4)] {
		name := root + "/" + names[i]
		dir := depth > 0 && rng.IntN(3) > 0
		make(name, dir)
		if dir {
			tree(rng, name, depth-1, make)
		}
	}
}

// TestWalkDirIsFilepaths: WalkDir makes the same calls as path/filepath, whatever the function
// returns.
func TestWalkDirIsFilepaths(t *testing.T) {
	for seed := range uint64(12) {
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
		ok(t, os.WriteFile(file, nil, 0o644))
		r := newRig(t, sftptest.Script{ReaddirNames: 2}, 0,
			usftp.WithServerVersion([]string{"", openSSH}[seed%2]))
		tree(rand.New(rand.NewPCG(seed, 1)), dir, 4, func(name string, isDir bool) {
			if isDir {
				ok(t, os.Mkdir(name, 0o755))
				r.server.Files.Mkdir(name)
			} else {
				ok(t, os.Link(file, name)) // faster than a file of its own
				r.server.Files.WriteFile(name, nil)
			}
		})
		ok(t, os.Symlink(dir, filepath.Join(dir, "link")))
		r.server.Files.Symlink(dir, dir+"/link")
		visit := func(calls *[]string) fs.WalkDirFunc {
			rng := rand.New(rand.NewPCG(seed, 2))
			return func(path string, d fs.DirEntry, err error) error {
				*calls = append(*calls, fmt.Sprint(path, d.IsDir(), d.Type(), err))
				switch n := rng.IntN(40); {
				case seed%3 == 0:
				case n == 0:
					return fs.SkipAll
				case n < 5:
					return fs.SkipDir
				case n == 6:
					return errors.New("enough")
				}
				return nil
			}
		}
		var want, got []string
		wantErr := filepath.WalkDir(dir, visit(&want))
		gotErr := r.WalkDir(dir, visit(&got))
		if !slices.Equal(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("seed %d: %v\n%s\nwant %v\n%s", seed, gotErr, strings.Join(got, "\n"), wantErr,
				strings.Join(want, "\n"))
		}
		// earlier replies arrive before this one, and their handles get closed
		r.Stat("/")
		if _, err := r.Stat("/"); err != nil || r.server.OpenHandles() != 0 {
			t.Errorf("seed %d: %v, %d handles are open", seed, err, r.server.OpenHandles())
		}
	}
}

// TestWalkPipelines: 20,000 files in 2,000 directories, which would take over 4,000 round trips one
// directory after the other.
func TestWalkPipelines(t *testing.T) {
	const rtt = 50 * time.Millisecond
	for _, test := range []struct {
		version string
		trips   float64
	}{{openSSH, 64}, {"", 80}} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(test.version))
			for i := range 20_000 {
				r.server.Files.WriteFile(fmt.Sprintf("/t/%02d/%03d/%d", i/10/100, i/10, i), nil)
			}
			n := 0
			took := trips(rtt, func() {
				for f, err := range r.Walk("/t") {
					if err != nil {
						t.Fatal(err)
					}
					if f.IsRegular() {
						n++
					}
				}
			})
			t.Logf("%v round trips", took)
			if n != 20_000 || took > test.trips {
				t.Errorf("%q: %d files in %v round trips", test.version, n, took)
			}
		})
	}
}

// TestWalkWithoutAttributes: if listings do not say what is a directory, the walk asks.
func TestWalkWithoutAttributes(t *testing.T) {
	var got []string
	listed := map[string][]wire.Name{"/d": {{Filename: "e"}, {Filename: "l"}},
		"/d/e": {{Filename: "f"}}}
	server := sftptest.NewServer(t,
		sftptest.Script{Intercept: func(request sftptest.Request) []sftptest.Action {
			if names := listed[request.Path]; request.Type == wire.TypeReaddir && names != nil {
				delete(listed, request.Path)
				return []sftptest.Action{
					sftptest.ReplyBytes(string(wire.Names{Names: names}.Append(nil,
						request.ID)))}
			}
			if request.Type == wire.TypeReaddir {
				return []sftptest.Action{sftptest.Refuse(wire.EOF, "")}
			}
			return nil
		}})
	server.Files.WriteFile("/d/e/f", nil)
	server.Files.Symlink("/d", "/d/l")
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
	ok(t, client.WalkDir("/d", func(path string, d fs.DirEntry, err error) error {
		got = append(got, fmt.Sprint(path, " ", d.Type(), " ", err))
		return nil
	}))
	want := []string{"/d d--------- <nil>", "/d/e d--------- <nil>", "/d/e/f ---------- <nil>",
		"/d/l L--------- <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestWalkFewHandles: the walk succeeds on a server that silently allows few open handles.
func TestWalkFewHandles(t *testing.T) {
	for range 20 { // the order in which goroutines run decides which are refused
		walkFewHandles(t)
	}
}

func walkFewHandles(t *testing.T) {
	r := newRig(t, sftptest.Script{Limits: &wire.LimitsReply{MaxOpenHandles: 3},
		Extensions: []wire.ExtensionPair{}}, 0)
	for i := range 300 {
		r.server.Files.WriteFile(fmt.Sprintf("/t/%d/f", i), nil)
	}
	n := 0
	for f, err := range r.Walk("/t") {
		if err != nil {
			t.Fatal(f, err)
		}
		n++
	}
	if n != 601 {
		t.Errorf("%d entries, want 601", n)
	}
}

// TestWalkAnnouncedHandles: where the server says how few handles it allows, none is refused.
func TestWalkAnnouncedHandles(t *testing.T) {
	const rtt = 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{Limits: &wire.LimitsReply{MaxOpenHandles: 4}}, rtt)
		must[usftp.Limits](t)(r.Limits())
		for i := range 30 {
			r.server.Files.WriteFile(fmt.Sprintf("/t/%d/f", i), nil)
		}
		for f, err := range r.Walk("/t") {
			if err != nil {
				t.Fatal(f, err)
			}
		}
		if n := len(r.server.Requests(wire.TypeOpendir)); n != 31 {
			t.Errorf("%d OPENDIRs for 31 directories", n)
		}
	})
}

func TestWalkErrors(t *testing.T) {
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeOpendir, Path: "/t/b",
		Do: sftptest.Refuse(wire.PermissionDenied, "")}}}, 0)
	for _, name := range []string{"/t/a/1", "/t/b/2", "/t/c/3"} {
		r.server.Files.WriteFile(name, nil)
	}
	var failed []string
	n := 0
	for f, err := range r.Walk("/t") {
		n++
		if err != nil {
			failed = append(failed, f.Name())
		}
	}
	if n != 7 || !slices.Equal(failed, []string{"/t/b"}) {
		t.Error(n, failed)
	}
	for f, err := range r.Walk("/none") {
		if f != nil || !errors.Is(err, fs.ErrNotExist) {
			t.Error(f, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := r.WithContext(ctx).WalkDir("/t",
		func(path string, _ fs.DirEntry, err error) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	err = nil
	for _, err = range r.WithContext(ctx).Walk("/t") {
		cancel()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Walk was cancelled, and ended with %v", err)
	}
}
