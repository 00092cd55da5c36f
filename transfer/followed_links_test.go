package transfer_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// newFollowingBench is a bench whose server follows links when it renames, as ProFTPD's does.
func newFollowingBench(t *testing.T, script sftptest.Script) *bench {
	t.Helper()
	script.FollowLinks, script.Home = true, "/home"
	b := newTreeBench(t, script, sftptest.LinkConfig{})
	b.host = redialed(t, "far", func() (*usftp.Client, error) {
		end := b.server.Dial(sftptest.LinkConfig{})
		return usftp.NewClientPipe(end, end, usftp.WithServerVersion("SSH-2.0-mod_sftp"))
	})
	return b
}

// linksOf makes links, by name.
func linksOf(t *testing.T, dir string, links map[string]string) {
	t.Helper()
	for name, to := range links {
		testenv.Symlink(t, to, filepath.Join(dir, name))
	}
}

// Links are replaced, not followed, on a server whose renames follow them, and the next sync finds
// everything equal, although the server resolves what links say.
func TestServerThatFollowsLinks(t *testing.T) {
	for name, script := range map[string]sftptest.Script{"with extensions": {},
		"without": {Extensions: []wire.ExtensionPair{}}} {
		for _, how := range []string{"sync", "sync, backup", "cp", "cp, in place"} {
			for _, target := range []string{"/home/dst", "dst"} {
				t.Run(name+", "+how+", "+target, func(t *testing.T) {
					b := newFollowingBench(t, script)
					src := filepath.Join(b.dir, "src")
					fill(t, src, "file for link", "file for dangling", "new")
					linksOf(t, src, map[string]string{"link for link": "../new",
						"link for file": "new", "same": "../precious", "same absolute": "/nowhere"})
					files := b.server.Files
					files.WriteFile("/home/precious", []byte("precious"))
					files.WriteFile("/home/dst/link for file", []byte("old"))
					for name, to := range map[string]string{"file for link": "../precious",
						"link for link": "../precious", "same": "../precious",
						"same absolute": "/nowhere", "file for dangling": "/missing"} {
						files.Symlink(to, "/home/dst/"+name)
					}
					want := []string{"/home/", "/home/dst/"}
					if how == "sync, backup" {
						want = append(want, "/home/dst/.old/",
							"/home/dst/.old/file for dangling -> /missing",
							"/home/dst/.old/file for link -> /home/precious",
							"/home/dst/.old/link for file",
							"/home/dst/.old/link for link -> /home/precious")
					}
					want = append(want, "/home/dst/file for dangling", "/home/dst/file for link",
						"/home/dst/link for file -> new", "/home/dst/link for link -> ../new",
						"/home/dst/new", "/home/dst/same -> ../precious",
						"/home/dst/same absolute -> /nowhere", "/home/precious")
					j := &syncJob{direction: upload, far: b.host, src: src, dst: target}
					j.options.Preserve = true
					if how == "sync, backup" {
						j.options.BackupDir = ".old"
					}
					for _, first := range []bool{true, false} {
						var s transfer.Summary
						var err error
						if strings.HasPrefix(how, "sync") {
							s, err = j.run(t)
						} else {
							s, err = b.tree(upload, src+"/.", target, func(tree *treeJob) {
								if how == "cp, in place" {
									tree.Options.Placement = transfer.PlaceDirect
								}
							})
						}
						if err != nil {
							t.Fatal(err)
						}
						if strings.HasPrefix(how, "sync") && !first && s.Files+s.Links > 0 {
							t.Errorf("again %+v", s.Totals)
						}
						if got := b.remote("/home/precious"); string(got) != "precious" {
							t.Errorf("what a link led to is now %q", got)
						}
						if got := files.List(); !slices.Equal(got, want) {
							t.Errorf("there are %q, want %q", got, want)
						}
					}
				})
			}
		}
	}
}

// A link in place of a directory is not entered, though the server's LSTAT says that it is one.
func TestDirectoryForALinkThatIsFollowed(t *testing.T) {
	b := newFollowingBench(t, sftptest.Script{})
	src := filepath.Join(b.dir, "src")
	fill(t, src, "d/file")
	b.server.Files.WriteFile("/elsewhere/file", []byte("precious"))
	b.server.Files.Symlink("../elsewhere", "/dst/d")
	if _, err := b.tree(upload, src+"/.", "/dst"); err == nil {
		t.Error("it was entered")
	}
	j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
		options: transfer.SyncOptions{Delete: true, BackupDir: ".old"}}
	j.must(t)
	if got := b.remote("/elsewhere/file"); string(got) != "precious" {
		t.Errorf("it wrote %q", got)
	}
	want := []string{"/dst/", "/dst/.old/", "/dst/.old/d -> /elsewhere", "/dst/d/", "/dst/d/file",
		"/elsewhere/", "/elsewhere/file", "/home/"}
	if got := b.server.Files.List(); !slices.Equal(got, want) {
		t.Errorf("there are %q", got)
	}
}

// A source cannot make such a server write elsewhere, by a link and a file of the same name.
func TestHostileSourceForAServerThatFollowsLinks(t *testing.T) {
	var linked sftptest.Gate
	b := newFollowingBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeSymlink {
			linked.Open()
		}
		return nil
	}})
	b.server.Files.WriteFile("/precious", []byte("precious"))
	listed := false
	from := newTreeBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
		Do: sftptest.Hold(&linked)}}, Intercept: func(r sftptest.Request) []sftptest.Action {
		switch {
		case r.Type == wire.TypeReaddir && !listed:
			listed = true
			return names(r, wire.Name{Filename: "x", Attrs: wire.Attrs{
				Flags: wire.AttrPermissions, Permissions: 0o120777}},
				wire.Name{Filename: "x", Attrs: wire.Attrs{
					Flags:       wire.AttrPermissions | wire.AttrSize,
					Permissions: 0o100644, Size: 3}})
		case r.Type == wire.TypeReadlink:
			return names(r, wire.Name{Filename: "../precious"})
		}
		return nil
	}}, sftptest.LinkConfig{})
	from.server.Files.WriteFile("/tree/x", []byte("bad"))
	_, err := b.tree(relay, "/tree", "/copy", func(tree *treeJob) { tree.From = from.host })
	if err == nil {
		t.Error("nothing was refused")
	}
	if got := b.remote("/precious"); string(got) != "precious" {
		t.Errorf("it wrote %q through a link", got)
	}
}

// If a link was removed for a file that then cannot have its name, the link is made again, or else
// the error says what it was, and where the file is.
func TestFileForALinkIsRefused(t *testing.T) {
	for _, again := range []bool{true, false} {
		refused := []wire.Type{wire.TypeRename}
		if !again {
			refused = append(refused, wire.TypeSymlink)
		}
		b := newFollowingBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{}})
		src := filepath.Join(b.dir, "src")
		fill(t, src, "file")
		b.server.Files.Symlink("precious", "/dst/file")
		for _, on := range refused {
			b.server.AddFaults(sftptest.Fault{On: on, Do: sftptest.Refuse(wire.Failure, "no")})
		}
		_, err := b.tree(upload, src+"/.", "/dst", func(tree *treeJob) {
			tree.Options.Placement = transfer.PlaceAtomic
		})
		left := b.temporaries()
		if err == nil || len(left) != 1 ||
			!strings.Contains(err.Error(), "all of the data is in far:"+left[0]) {
			t.Fatalf("left behind are %q: %v", left, err)
		}
		const said = "/dst/file was a link to /dst/precious"
		if strings.Contains(err.Error(), said) == again {
			t.Error(err)
		}
		if to, err := b.host.Client.ReadLink("/dst/file"); (err == nil) != again ||
			again && to != "/dst/precious" {
			t.Errorf("it leads to %q, %v", to, err)
		}
	}
}

// Whichever request loses the connection, before it is carried out or after, links are replaced and
// what they led to stays. Later requests on that connection are not carried out: what a server does
// with them after the client has tidied up stays.
func TestConnectionLostWhereLinksAreFollowed(t *testing.T) {
	for what, loss := range map[string][]sftptest.Action{"request": {sftptest.Hangup()},
		"answer": {sftptest.LastReply(), sftptest.Drop()}} {
		for cut, hit := int64(1), true; hit; cut++ {
			var requests atomic.Int64
			var lost atomic.Pointer[int]
			b := newFollowingBench(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if stream := lost.Load(); stream != nil && *stream == r.Stream {
						return []sftptest.Action{sftptest.Hangup()}
					}
					if strings.HasPrefix(r.Path, "/home/dst/") && requests.Add(1) == cut {
						lost.Store(&r.Stream)
						return loss
					}
					return nil
				}})
			src := filepath.Join(b.dir, "src")
			fill(t, src, "file")
			linksOf(t, src, map[string]string{"link": "new"})
			b.server.Files.WriteFile("/home/precious", []byte("precious"))
			b.server.Files.Symlink("../precious", "/home/dst/file")
			b.server.Files.Symlink("../precious", "/home/dst/link")
			_, err := b.tree(upload, src+"/.", "/home/dst", func(tree *treeJob) {
				tree.Options.Retries = 3
				tree.Options.Backoff = func(int) time.Duration { return 0 }
			})
			want := []string{"/home/", "/home/dst/", "/home/dst/file", "/home/dst/link -> new",
				"/home/precious"}
			if got := b.server.Files.List(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s %d lost: there are %q, %v", what, cut, got, err)
			}
			if got := b.remote("/home/precious"); string(got) != "precious" {
				t.Errorf("%s %d lost: what the links led to is now %q", what, cut, got)
			}
			hit = requests.Load() >= cut
		}
	}
}

// What a server that resolves links says of one within the source is made relative again, and the
// next sync finds it equal.
func TestLinksFromAServerThatResolvesThem(t *testing.T) {
	b := newFollowingBench(t, sftptest.Script{})
	b.server.Files.WriteFile("/home/precious", []byte("precious"))
	b.server.Files.WriteFile("/home/src/sub/file", []byte("text"))
	for name, to := range map[string]string{"sub/beside": "file", "above": "sub/file",
		"sub/below": "../above", "out": "../precious", "sub/up": ".."} {
		b.server.Files.Symlink(to, "/home/src/"+name)
	}
	dst := filepath.Join(b.dir, "dst")
	j := &syncJob{direction: download, far: b.host, src: "src", dst: dst}
	testenv.Symlink(t, "nothing", filepath.Join(t.TempDir(), "link"))
	for _, links := range []int64{5, 0} {
		if s, err := j.run(t); err != nil || s.Links != links {
			t.Errorf("%d links, not %d, %v", s.Links, links, err)
		}
		for name, want := range map[string]string{"sub/beside": "file", "above": "sub/file",
			"out": "/home/precious", "sub/up": ".."} {
			if to, err := os.Readlink(filepath.Join(dst, name)); to != want {
				t.Errorf("%s leads to %q, not %q, %v", name, to, want, err)
			}
		}
		if data, err := os.ReadFile(filepath.Join(dst, "sub/below")); string(data) != "text" {
			t.Errorf("sub/below leads to %q, %v", data, err)
		}
	}
}

// A host that makes absolute links of relative ones, as Erlang's does, is told of once.
func TestLinksThatBecomeAbsolute(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{DraftSymlink: true}, sftptest.LinkConfig{})
	end := b.server.Dial(sftptest.LinkConfig{})
	client, err := usftp.NewClientPipe(end, end, usftp.WithServerVersion("SSH-2.0-Erlang/4.15.2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	b.host.Client = client
	src := filepath.Join(b.dir, "src")
	fill(t, src, "file")
	linksOf(t, src, map[string]string{"one": "file", "two": "file", "three": "/file"})
	var told []string
	_, err = b.tree(upload, src, "/dst", func(tree *treeJob) {
		tree.Options.Events = func(e transfer.Event) {
			if e.Kind == transfer.Warning {
				told = append(told, e.Message)
			}
		}
	})
	want := "relative symbolic links become absolute: the host stores where they lead"
	if err != nil || !slices.Equal(told, []string{want}) {
		t.Errorf("%q, %v", told, err)
	}
	if got := b.server.Files.List(); !slices.Contains(got, "/dst/one -> /dst/file") {
		t.Errorf("%q", got)
	}
}
