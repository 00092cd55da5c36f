//go:build unix

package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestSpecialFilesAreSkipped: anything other than files, directories and links is neither copied
// nor waited for, and each is reported.
func TestSpecialFilesAreSkipped(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.MkdirAll(filepath.Join(source, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(source, "deep", "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(source) // a socket's path must be short
	listener, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.WriteFile("file", []byte("file"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := []string{"deep/pipe: it is a named pipe, which is not copied",
		"socket: it is a socket, which is not copied"}
	sshd := opensshd.Start(t, opensshd.Options{})
	host := throughProxy(t, sshd, cutproxy.Start(t, sshd.Addr()))
	for _, direction := range []way{upload, download,
		local} {
		var skipped []string
		tree := treeJob{Host: host, Direction: direction, Source: source,
			Target: filepath.Join(dir, direction.String())}
		tree.Options.Events = func(e transfer.Event) {
			if e.Kind == transfer.Skipped {
				skipped = append(skipped, strings.TrimPrefix(e.Source, source+"/")+": "+e.Message)
			}
		}
		s, err := tree.Run(t.Context())
		slices.Sort(skipped)
		if err != nil || s.Files != 1 || s.Skipped != 2 || !slices.Equal(skipped, want) {
			t.Errorf("%v: %+v, %v; skipped %q", direction, s, err, skipped)
		}
	}
}

// TestUploadInPlaceFollowsNoLink: what a tree writes in place on a host is not written through a
// link that another user has put there.
func TestUploadInPlaceFollowsNoLink(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		script := sftptest.Script{}
		if fallback { // temporary names are refused
			script.Intercept = func(r sftptest.Request) []sftptest.Action {
				if strings.Contains(r.Path, ".usftp-") {
					return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied,
						"no such names here")}
				}
				return nil
			}
		}
		b := newTreeBench(t, script, sftptest.LinkConfig{})
		for name, data := range map[string]string{"linked": "new", "plain": "new", "fresh": "new",
			"dir/below": "new"} {
			os.MkdirAll(filepath.Join(b.dir, "tree", "dir"), 0o755)
			b.local("tree/"+name, []byte(data))
		}
		b.server.Files.Mkdir("/tree")
		b.server.Files.WriteFile("/victim", []byte("safe"))
		b.server.Files.WriteFile("/tree/plain", []byte("old and longer"))
		b.server.Files.Symlink("/victim", "/tree/linked")
		s, err := b.tree(upload, filepath.Join(b.dir, "tree"), "/",
			func(tree *treeJob) {
				if !fallback {
					tree.Options.Placement = transfer.PlaceDirect
				}
			})
		if err != nil || s.Files != 4 {
			t.Errorf("%+v, %v", s, err)
		}
		for name, want := range map[string]string{"/victim": "safe", "/tree/linked": "new",
			"/tree/plain": "new", "/tree/fresh": "new", "/tree/dir/below": "new"} {
			if got := b.remote(name); string(got) != want {
				t.Errorf("fallback %t: %s has %q, want %q", fallback, name, got, want)
			}
		}
		if info, err := b.host.Client.Lstat("/tree/linked"); err != nil ||
			!info.Mode().IsRegular() {
			t.Errorf("fallback %t: the link was not replaced: %v, %v", fallback, info, err)
		}
	}
}

// TestInPlaceReconnects: a tree that is written in place continues over a new connection, in
// directories that it has made too.
func TestInPlaceReconnects(t *testing.T) {
	for _, direction := range []way{upload, download} {
		synctest.Test(t, func(t *testing.T) {
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
				RateBytesPerSec: 4 << 20}
			b := newTreeBench(t, sftptest.Script{}, link)
			data := random(2 << 20)
			source, target := filepath.Join(b.dir, "tree"), "/copy"
			os.MkdirAll(filepath.Join(source, "dir"), 0o755)
			for i := range 4 {
				b.local(fmt.Sprintf("tree/dir/%d", i), data)
				b.server.Files.WriteFile(fmt.Sprintf("/tree/dir/%d", i), data)
			}
			if direction == download {
				source, target = "/tree", filepath.Join(b.dir, "copy")
			}
			b.redials(link, func(n int, end *sftptest.End) {
				if n == 0 {
					time.AfterFunc(time.Second, func() { end.Cut(nil) })
				}
			})
			s, err := b.tree(direction, source, target, func(tree *treeJob) {
				tree.Options.Placement = transfer.PlaceDirect
				tree.Options.Retries = 5
				tree.Options.Backoff = func(int) time.Duration { return time.Millisecond }
			})
			if err != nil || s.Files != 4 {
				t.Fatalf("%v: %+v, %v", direction, s, err)
			}
			for i := range 4 {
				got := []byte(nil)
				if name := fmt.Sprintf("copy/dir/%d", i); direction == upload {
					got = b.remote("/" + name)
				} else {
					got = b.read(name)
				}
				if !bytes.Equal(got, data) {
					t.Errorf("%v: file %d differs", direction, i)
				}
			}
			if retried := b.kinds(transfer.Retried, ""); len(retried) == 0 {
				t.Error("the connection was not lost")
			}
		})
	}
}

// TestAttributesRefused: times are kept where the host allows it; where it does not, that matters
// to nobody who did not ask for it.
func TestAttributesRefused(t *testing.T) {
	for _, code := range []wire.Code{wire.PermissionDenied, wire.OpUnsupported, wire.Failure} {
		script := sftptest.Script{Faults: []sftptest.Fault{
			{On: wire.TypeSetstat, Do: sftptest.Refuse(code, "no")}, {On: wire.TypeFsetstat,
				Do: sftptest.Refuse(code, "no")},
		}}
		for _, known := range []usftp.ClientOption{inOrder, usftp.WithServerVersion("")} {
			b := newBench(t, script, sftptest.LinkConfig{}, known)
			os.MkdirAll(filepath.Join(b.dir, "tree", "dir"), 0o755)
			for name, size := range map[string]int{"tree/small": 10, "tree/dir/large": 1 << 20} {
				b.local(name, random(size))
			}
			s, err := b.tree(upload, filepath.Join(b.dir, "tree"), "/kept")
			if err != nil || s.Files != 2 || !bytes.Equal(b.remote("/kept/dir/large"),
				random(1<<20)) {
				t.Errorf("%v: %+v, %v", code, s, err)
			}
			if said := kindsSaid(b.notes()); len(said) > 0 {
				t.Errorf("%v: it says that nobody can set %q", code, said)
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("%v: left behind: %q", code, left)
			}
		}
	}
}

// TestTreeRateLimit: the limit applies to all files of a tree together, however many are in
// progress.
func TestTreeRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		os.Mkdir(filepath.Join(b.dir, "tree"), 0o755)
		b.local("tree/large", random(1<<20))
		b.local("tree/other", random(1<<20))
		for i := range 32 {
			b.local(fmt.Sprintf("tree/small%d", i), random(64<<10))
		}
		for _, name := range []string{"large", "other"} { // the fake clock is far behind
			old := time.Unix(1e8, 0)
			os.Chtimes(filepath.Join(b.dir, "tree", name), old, old)
		}
		limit := func(tree *treeJob) { tree.Options.RateLimit = 1 << 20 }
		for _, run := range []func() (transfer.Summary, error){
			func() (transfer.Summary, error) {
				return b.tree(upload, filepath.Join(b.dir, "tree"), "/copy", limit)
			},
			func() (transfer.Summary, error) {
				return b.tree(download, "/copy", filepath.Join(b.dir, "back"), limit)
			},
			func() (transfer.Summary, error) {
				return b.tree(local, filepath.Join(b.dir, "tree"),
					filepath.Join(b.dir, "here"), limit)
			},
		} {
			if s, err := run(); err != nil || s.Files != 34 || s.Elapsed < 3800*time.Millisecond ||
				s.Elapsed > 4200*time.Millisecond {
				t.Errorf("4 MiB at 1 MiB/s: %+v, %v", s, err)
			}
		}
	})
}

// TestDirectoriesObeyTheUmask: a source cannot give a directory what the umask leaves out, also not
// by permissions with which it could not be filled.
func TestDirectoriesObeyTheUmask(t *testing.T) {
	t.Parallel()
	for _, mode := range []fs.FileMode{0o777, 0o577, 0o077, 0o555} {
		t.Run(fmt.Sprintf("%o", mode), func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			usual := filepath.Join(b.dir, "usual")
			b.server.Files.Mkdir("/src/d")
			err := errors.Join(os.Mkdir(usual, 0o777), b.server.Files.SetMode("/src/d", fs.ModeDir|mode))
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(b.dir, "target")
			t.Cleanup(func() { os.Chmod(filepath.Join(target, "d"), 0o700) })
			if _, err := b.tree(download, "/src", target); err != nil {
				t.Fatal(err)
			}
			have, err := os.Stat(filepath.Join(target, "d"))
			allowed, allowedErr := os.Stat(usual)
			if err := errors.Join(err, allowedErr); err != nil {
				t.Fatal(err)
			}
			if want := allowed.Mode() & (fs.ModeDir | mode); have.Mode() != want {
				t.Errorf("%v becomes %v, want %v", mode, have.Mode(), want)
			}
		})
	}
}
