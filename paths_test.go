package usftp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// On a server that rewrites the targets of links, Symlink does not mistake an existing link for one
// that SYMLINK made the wrong way round.
func TestSymlinkKeepsWhatWasThere(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.Symlink("/new", "/old")
	r.server.AddFaults(sftptest.Fault{On: wire.TypeReadlink, Path: "/new",
		Do: sftptest.Refuse(wire.PermissionDenied, "links are private")})
	ok(t, r.Symlink("/old", "/new"))
	if !r.server.Files.Exists("/old") {
		t.Error("/old is gone")
	}
}

func TestGlob(t *testing.T) {
	r := newRig(t, sftptest.Script{Home: "/home"}, 0)
	for _, name := range []string{"/home/a.txt", "/home/b.txt", "/home/.c.txt", "/home/d/x.txt",
		"/home/d/[1]", "/home/e/x.txt", "/home/f"} {
		r.server.Files.WriteFile(name, nil)
	}
	for pattern, want := range map[string][]string{
		"*.txt":        {".c.txt", "a.txt", "b.txt"},
		"?.txt":        {"a.txt", "b.txt"},
		"*/x.txt":      {"d/x.txt", "e/x.txt"},
		"/home/?":      {"/home/d", "/home/e", "/home/f"},
		"/h*/[de]/x*":  {"/home/d/x.txt", "/home/e/x.txt"},
		"a.txt":        {"a.txt"},
		"none":         nil,
		"none/*":       nil,
		"f/*":          nil,
		`d/\[1\]`:      {"d/[1]"},
		"./*.txt":      {".c.txt", "a.txt", "b.txt"},
		"/home//d/x.*": {"/home/d/x.txt"},
	} {
		if got, err := r.Glob(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("Glob(%q) = %q, %v, want %q", pattern, got, err, want)
		}
	}
	if _, err := r.Glob("["); !errors.Is(err, path.ErrBadPattern) {
		t.Error(err)
	}
}

// TestGlobOfAListingThatBreaksOff: part of a listing is not taken for all of it.
func TestGlobOfAListingThatBreaksOff(t *testing.T) {
	r := newRig(t, sftptest.Script{ReaddirNames: 2, Faults: []sftptest.Fault{
		{On: wire.TypeReaddir, Path: "/logs", Skip: 2,
			Do: sftptest.Refuse(wire.Failure, "the disk is broken")}}}, 0)
	for i := range 9 {
		r.server.Files.WriteFile(fmt.Sprintf("/logs/%d", i), nil)
	}
	if names, err := r.Glob("/logs/*"); err == nil ||
		!strings.Contains(err.Error(), "the disk is broken") {
		t.Errorf("%q, %v", names, err)
	}
}

func TestGlobPipelines(t *testing.T) {
	const rtt = 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		for i := range 320 {
			r.server.Files.WriteFile(fmt.Sprintf("/logs/%d/today", i), nil)
		}
		var names []string
		took := trips(rtt, func() { names = must[[]string](t)(r.Glob("/logs/*/t*")) })
		if len(names) != 320 || took > 40 {
			t.Errorf("%d names in %v round trips", len(names), took)
		}
	})
}

func TestMkdirAll(t *testing.T) {
	const rtt = 100 * time.Millisecond
	for _, version := range []string{openSSH, "SSH-2.0-Go"} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{Home: "/home"}, rtt, usftp.WithServerVersion(version))
			r.server.Files.WriteFile("/home/file", nil)
			r.server.Files.Symlink("a", "/home/link")
			for _, step := range []struct {
				name    string
				inOrder float64
			}{{"a", 1}, {"a", 2}, {"a/b/c/d/e", 2}, {"/home/x//y/z/", 2}, {"link", 2},
				{"link/k", 1}, {"./q/r", 2}, {"..", 2}, {"/", 2}} {
				took := trips(rtt, func() {
					if err := r.MkdirAll(step.name); err != nil {
						t.Errorf("MkdirAll(%q): %v", step.name, err)
					}
				})
				if version == openSSH && took > step.inOrder {
					t.Errorf("MkdirAll(%q) took %v round trips", step.name, took)
				}
				if info, err := r.Stat(step.name); err != nil || !info.IsDir() {
					t.Errorf("%q is not there: %v", step.name, err)
				}
			}
			for _, name := range []string{"file", "file/x", "file/x/y"} {
				err := r.MkdirAll(name)
				if named, ok := errors.AsType[*fs.PathError](err); !ok || named.Path != "file" ||
					!errors.Is(err, syscall.ENOTDIR) {
					t.Errorf("MkdirAll(%q): %v", name, err)
				}
			}
		})
	}
}

func TestMakingWhatExists(t *testing.T) {
	for _, script := range []sftptest.Script{{}, {RichCodes: true}, {NoMessages: true},
		{BareStatus: true}} {
		r := newRig(t, script, 0)
		r.server.Files.WriteFile("/f", []byte("x"))
		r.server.Files.WriteFile("/g", []byte("y"))
		exclusive := func() error {
			_, err := r.OpenFile("/f", os.O_WRONLY|os.O_CREATE|os.O_EXCL,
				0o600)
			return err
		}
		for what, err := range map[string]error{
			"mkdir": r.Mkdir("/f"), "rename": r.Rename("/g", "/f"), "link": r.Link("/g", "/f"),
			"symlink": r.Symlink("/g", "/f"), "open": exclusive(),
		} {
			if !errors.Is(err, fs.ErrExist) {
				t.Errorf("%v, %s: %v", script, what, err)
			}
			var status *usftp.StatusError
			if !errors.As(err, &status) {
				t.Errorf("%v, %s: the server's answer is lost: %#v", script, what, err)
			}
		}
		if err := r.Mkdir("/none/d"); !errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, fs.ErrExist) {
			t.Errorf("without a parent: %v", err)
		}
	}
}

func TestSymlinkOrders(t *testing.T) {
	for _, test := range []struct {
		draft   bool
		version string
	}{{false, openSSH}, {false, ""}, {true, ""}, {true, "SSH-2.0-AsyncSSH_2.18.0"},
		{true, "SSH-2.0-Erlang/5.1.4"}, {true, "SSH-2.0-Twisted_24.3.0"}} {
		r := newRig(t, sftptest.Script{DraftSymlink: test.draft, Home: "/home"}, 0,
			usftp.WithServerVersion(test.version))
		for _, name := range []string{"one", "two"} {
			if err := r.Symlink("target of "+name, name); err != nil {
				t.Errorf("%+v: %v", test, err)
			}
			if got, err := r.ReadLink(name); got != "target of "+name || err != nil {
				t.Errorf("%+v: %q, %v", test, got, err)
			}
		}
		if got := r.server.Files.List(); len(got) != 3 {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// Where the order of SYMLINK's paths is unknown, a name that exists is not taken for the new
// link's, and no link is made elsewhere.
func TestSymlinkOverAName(t *testing.T) {
	for _, draft := range []bool{false, true} {
		r := newRig(t, sftptest.Script{DraftSymlink: draft, Home: "/home"}, 0)
		r.server.Files.WriteFile("/home/b", nil)
		if err := r.Symlink("a", "/home/b"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v: %v", draft, err)
		}
		if got := r.server.Files.List(); !slices.Equal(got, []string{"/home/", "/home/b"}) {
			t.Errorf("%v: %q", draft, got)
		}
	}
}

// Servers that take a link's relative target to begin at the login directory, as those of Erlang,
// Maverick and Twisted do, and that may also look for it there when the link is read.
func TestSymlinkFromTheLoginDirectory(t *testing.T) {
	for version, symlinks := range map[string]int{"": 3, "SSH-2.0-AsyncSSH_2.18.0": 3,
		"SSH-2.0-Twisted_24.3.0": 2} {
		for _, silent := range []bool{false, true} {
			var r *rig
			relative := false // the last link was
			script := sftptest.Script{Home: "/home", DraftSymlink: version != ""}
			script.Intercept = func(q sftptest.Request) []sftptest.Action {
				switch {
				case q.Type == wire.TypeReadlink && silent && relative:
					return []sftptest.Action{sftptest.Refuse(wire.NoSuchFile, "")}
				case q.Type == wire.TypeSymlink:
					if relative = !path.IsAbs(q.Path2); relative {
						r.server.Files.Symlink(path.Join("/home", q.Path2), q.Path)
						return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
					}
				}
				return nil
			}
			r = newRig(t, script, 0, usftp.WithServerVersion(version))
			r.server.Files.Mkdir("/d")
			ok(t, r.Symlink("a", "/d/b"))
			ok(t, r.Symlink("a", "/d/c"))
			if got := r.server.Files.List(); !slices.Equal(got, []string{"/d/", "/d/b -> /d/a",
				"/d/c -> /d/a", "/home/"}) {
				t.Errorf("%q, %v: %q", version, silent, got)
			}
			if n := len(r.server.Requests(wire.TypeSymlink)); n != symlinks {
				t.Errorf("%q, %v: %d SYMLINKs", version, silent, n)
			}
		}
	}
}

func TestCreateWhereReadWriteIsRefused(t *testing.T) {
	r := newRig(t, sftptest.Script{NoReadWrite: true}, 0)
	for range 2 {
		f := must[*usftp.File](t)(r.Create("/f"))
		if n, err := f.Write([]byte("data")); n != 4 || err != nil {
			t.Error(n, err)
		}
		ok(t, f.Close())
	}
	if n := len(r.server.Requests(wire.TypeOpen)); n != 3 {
		t.Errorf("%d OPENs, want 3: what the server refuses is remembered", n)
	}
}

// TestCreateOfUnreadableFile: a file that may be written but not read says nothing about others.
func TestCreateOfUnreadableFile(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/secret", []byte("old contents"))
	r.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Times: 1,
		Do: sftptest.Refuse(wire.PermissionDenied, "")})
	for _, name := range []string{"/secret", "/new"} {
		f := must[*usftp.File](t)(r.Create(name))
		must[int](t)(f.Write([]byte("data")))
		n, err := f.ReadAt(make([]byte, 4), 0)
		if readable := name == "/new"; readable != (n == 4) {
			t.Errorf("%s: read %d bytes, %v", name, n, err)
		}
		ok(t, f.Close())
		if data := must[[]byte](t)(r.ReadFile(name)); string(data) != "data" {
			t.Errorf("%s has %q", name, data)
		}
	}
}

func TestTemporaryNames(t *testing.T) {
	r := newRig(t, sftptest.Script{Home: "/home"}, 0)
	f := must[*usftp.File](t)(r.CreateTemp("", "a*b"))
	g := must[*usftp.File](t)(r.CreateTemp("/home", "a"))
	d := must[string](t)(r.MkdirTemp("/home", "d*"))
	if !strings.HasPrefix(f.Name(), "a") || !strings.HasSuffix(f.Name(), "b") ||
		!strings.HasPrefix(g.Name(), "/home/a") || !strings.HasPrefix(d, "/home/d") {
		t.Error(f.Name(), g.Name(), d)
	}
	if info := must[fs.FileInfo](t)(r.Stat(d)); !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Error(info)
	}
	if info := must[fs.FileInfo](t)(f.Stat()); info.Mode() != 0o600 {
		t.Error(info)
	}
	if _, err := r.CreateTemp("/none", "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := r.CreateTemp("", "x/y"); err == nil {
		t.Error("a pattern with a slash was taken")
	}
}

// Nobody knows the name of a temporary file or directory that appears after its maker has gone.
func TestTemporaryNamesThatNobodyWaitsFor(t *testing.T) {
	for request, try := range map[wire.Type]func(*usftp.Client) error{
		wire.TypeOpen: func(c *usftp.Client) error {
			_, err := c.CreateTemp("/", "x")
			return err
		},
		wire.TypeMkdir: func(c *usftp.Client) error {
			_, err := c.MkdirTemp("/", "x")
			return err
		},
	} {
		for _, refused := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				r := newRig(t, sftptest.Script{}, 0)
				gate := new(sftptest.Gate)
				r.server.AddFaults(sftptest.Fault{On: request, Do: sftptest.Hold(gate)})
				if refused {
					r.server.AddFaults(sftptest.Fault{On: request,
						Do: sftptest.Refuse(wire.PermissionDenied, "")})
				}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { synctest.Wait(); cancel() }()
				if err := try(r.WithContext(ctx)); !errors.Is(err, context.Canceled) {
					t.Errorf("%v: %v", request, err)
				}
				gate.Open()
				synctest.Wait()
				if left := must[[]*usftp.File](t)(r.ReadDir("/")); len(left) > 0 {
					t.Errorf("%v left %q", request, names(left))
				}
				synctest.Wait()
				if n := r.server.OpenHandles(); n != 0 {
					t.Errorf("%v left %d handles", request, n)
				}
				removed := len(r.server.Requests(wire.TypeRemove)) +
					len(r.server.Requests(wire.TypeRmdir))
				if refused && removed > 0 {
					t.Errorf("%v: what was not made is removed", request)
				}
			})
		}
	}
}

// Some servers (Maverick's) do not say NO_SUCH_FILE if a parent is missing.
func TestMkdirAllWhateverTheRefusal(t *testing.T) {
	for _, code := range []wire.Code{wire.PermissionDenied, wire.Failure, wire.OpUnsupported} {
		for _, version := range []string{openSSH, ""} {
			var r *rig
			r = newRig(t, sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
				if q.Type == wire.TypeMkdir && !r.server.Files.Exists(path.Dir(q.Path)) {
					return []sftptest.Action{sftptest.Refuse(code, "")}
				}
				return nil
			}}, 0, usftp.WithServerVersion(version))
			for range 2 {
				if err := r.MkdirAll("/a/b/c"); err != nil || !r.server.Files.Exists("/a/b/c") {
					t.Errorf("%v: %v", code, err)
				}
			}
		}
	}
}

// A name with a NUL, or one that makes a packet longer than the server takes, never reaches the
// server: OpenSSH's ends the session when it does.
func TestNamesThatAreNotSent(t *testing.T) {
	for what, base := range map[string]string{"NUL": "a\x00b",
		"long": strings.Repeat("a", wire.MaxPacket)} {
		t.Run(what, func(t *testing.T) { isNotSent(t, base) })
	}
}

func isNotSent(t *testing.T, base string) {
	t.Helper()
	name := "/" + base
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", nil)
	_, stat := r.Stat(name)
	_, lstat := r.Lstat(name)
	_, open := r.Open(name)
	_, create := r.Create(name)
	_, read := r.ReadFile(name)
	_, list := r.ReadDir(name)
	_, link := r.ReadLink(name)
	_, real := r.RealPath(name)
	_, expand := r.ExpandPath(name)
	_, home := r.HomeDirectory(name)
	_, statvfs := r.StatVFS(name)
	_, temp := r.CreateTemp("/", base)
	_, raw := r.Raw().Open(name, wire.OpenRead, wire.Attrs{}).Wait()
	_, async := r.Async().Stat(name).Wait()
	for what, err := range map[string]error{"Stat": stat, "Lstat": lstat, "Open": open,
		"Create": create, "ReadFile": read, "ReadDir": list, "ReadLink": link, "RealPath": real,
		"ExpandPath": expand, "HomeDirectory": home, "StatVFS": statvfs, "CreateTemp": temp,
		"Raw.Open": raw, "Async.Stat": async,
		"WriteFile": r.WriteFile(name, nil, 0o600), "Chmod": r.Chmod(name, 0o600),
		"Lchmod": r.Lchmod(name, 0o600), "Mkdir": r.Mkdir(name), "MkdirAll": r.MkdirAll(name),
		"Remove": r.Remove(name), "RemoveAll": r.RemoveAll(name),
		"RemoveDirectory": r.RemoveDirectory(name),
		"Rename":          r.Rename("/f", name), "Rename from": r.Rename(name, "/g"),
		"PosixRename": r.PosixRename("/f", name), "Link": r.Link("/f", name),
		"Symlink": r.Symlink("f", name), "Symlink to": r.Symlink(name, "/l"),
		"Truncate": r.Truncate(name, 0),
		"WalkDir":  r.WalkDir(name, func(_ string, _ fs.DirEntry, err error) error { return err }),
	} {
		var status *usftp.StatusError
		if !errors.Is(err, fs.ErrInvalid) || errors.As(err, &status) {
			t.Errorf("%s: %.200v", what, err)
		}
	}
	must[fs.FileInfo](t)(r.Stat("/f"))
}

// Every server takes packets of 34,000 bytes. Names that need more are not sent to one that does
// not say how much it takes; what the caller makes itself is, up to what common servers take.
func TestLongestRequests(t *testing.T) {
	r := newRig(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
		Limits: &wire.LimitsReply{MaxPacket: 34000}}, 0)
	const header = wire.HeaderSize - wire.LengthSize + 4
	longest := strings.Repeat("a", 34000-header)
	if _, err := r.Stat(longest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the longest name: %.100v", err)
	}
	half := longest[:17000]
	for what, err := range map[string]error{"Mkdir": r.Mkdir(longest + "a"),
		"Rename": r.Rename(half, half)} {
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %.100v", what, err)
		}
	}
	must[fs.FileInfo](t)(r.Stat("/"))

	r = newRig(t, sftptest.Script{Extensions: []wire.ExtensionPair{}}, 0)
	if _, err := r.Extended("x", make([]byte, 200_000)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an extension's request: %v", err)
	}
	if _, err := r.Extended("x", make([]byte, wire.MaxPacket)); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("too long a request: %v", err)
	}
	_, err := r.Raw().Write([]byte("h"), 0, make([]byte, wire.MaxPacket)).Wait()
	if !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("too long a WRITE: %v", err)
	}
	must[fs.FileInfo](t)(r.Stat("/"))
}
