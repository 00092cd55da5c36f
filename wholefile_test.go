package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func noise(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	return data
}

func TestWholeFiles(t *testing.T) {
	const rtt = 20 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		for _, size := range []int{0, 1, 4096, 1 << 20} {
			data := noise(size)
			if took := trips(rtt, func() { ok(t, r.WriteFile("/f", data, 0o640)) }); took > 3 {
				t.Errorf("WriteFile of %d bytes took %v round trips", size, took)
			}
			var got []byte
			if took := trips(rtt, func() { got = must[[]byte](t)(r.ReadFile("/f")) }); took > 2 {
				t.Errorf("ReadFile of %d bytes took %v round trips", size, took)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back as %d others", size, len(got))
			}
		}
		if info := must[fs.FileInfo](t)(r.Stat("/f")); info.Mode() != 0o640 {
			t.Errorf("mode %v", info.Mode())
		}
		if _, err := r.ReadFile("/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
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

func TestReadDirLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{ReaddirNames: 5}, 100*time.Millisecond)
		for i := range 100 {
			r.server.Files.WriteFile(fmt.Sprintf("/d/%d", i), nil)
		}
		n := 0
		files, err := r.ReadDirLimit("/d", 0, func(f *usftp.File) (accept, stop bool) {
			n++
			return n%2 == 0, n == 20
		})
		if len(files) != 10 || err != nil {
			t.Error(len(files), err)
		}
		files, err = r.ReadDirLimit("/d", time.Second, nil)
		if len(files) == 0 || len(files) == 100 || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(len(files), err)
		}
		ok(t, files[0].OpenRead()) // its context is the client's, not that of the time limit
	})
}

func TestCopyOnServer(t *testing.T) {
	data := noise(300_000)
	for _, extensions := range [][]wire.ExtensionPair{nil, {},
		{{Name: wire.ExtCopyData, Data: "1"}}} {
		r := newRig(t, sftptest.Script{Extensions: extensions}, 0)
		r.server.Files.WriteFile("/a", data)
		n, err := r.CopyFile("/a", "/b")
		got := must[[]byte](t)(r.server.Files.ReadFile("/b"))
		if n != int64(len(data)) || err != nil || !bytes.Equal(got, data) {
			t.Errorf("%v: %d, %v", extensions, n, err)
		}
		if reads := len(r.server.Requests(wire.TypeRead)); (reads == 0) != (extensions == nil ||
			len(extensions) == 1) {
			t.Errorf("%v: %d READs", extensions, reads)
		}
		from := must[*usftp.File](t)(r.Open("/a"))
		to := must[*usftp.File](t)(r.OpenFile("/b", os.O_RDWR, 0))
		if n, err := from.CopyRange(10, 20, to, 30); n != 20 || err != nil {
			t.Errorf("%v: %d, %v", extensions, n, err)
		}
		p := make([]byte, 20)
		if _, err := to.ReadAt(p, 30); err != nil || !bytes.Equal(p, data[10:30]) {
			t.Errorf("%v: the range differs: %v", extensions, err)
		}
		part := from.ReadRange(1000, 250_000)
		if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, data[1000:251_000]) {
			t.Errorf("%v: %d bytes of the range, %v", extensions, len(got), err)
		}
		ok(t, part.Close())
		part = from.ReadRange(299_990, 20)
		if got, err := io.ReadAll(part); !errors.Is(err, io.ErrUnexpectedEOF) ||
			!bytes.Equal(got, data[299_990:]) {
			t.Errorf("%v: beyond the end: %d bytes, %v", extensions, len(got), err)
		}
		ok(t, part.Close())
		if n, err := from.CopyRange(299_990, 20, to, 300_000); n != 10 ||
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v: beyond the end: %d, %v", extensions, n, err)
		}
	}
}

// TestExtensionsOfOpenSSH asks OpenSSH's own server.
func TestExtensionsOfOpenSSH(t *testing.T) {
	client := startServer(t)
	me, err := user.Current()
	ok(t, err)
	uid := must[int](t)(strconv.Atoi(me.Uid))
	users, groups, err := client.UsersGroups([]uint32{uint32(uid), 4_000_000_000}, []uint32{0})
	if err != nil || len(users) != 2 || users[0] != me.Username || users[1] != "" ||
		len(groups) != 1 || groups[0] == "" {
		t.Errorf("%q, %q, %v", users, groups, err)
	}
	if home, err := client.HomeDirectory(me.Username); home != me.HomeDir || err != nil {
		t.Errorf("%q, %v", home, err)
	}
	if home, err := client.ExpandPath("~" + me.Username); home != me.HomeDir || err != nil {
		t.Errorf("%q, %v", home, err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "a")
	data := noise(1 << 20)
	ok(t, os.WriteFile(source, data, 0o640))
	if n, err := client.CopyFile(source, filepath.Join(dir, "b")); n != 1<<20 || err != nil {
		t.Error(n, err)
	}
	if got := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "b"))); !bytes.Equal(got, data) {
		t.Error("the copy differs")
	}
	f := must[*usftp.File](t)(client.Open(source))
	g := must[*usftp.File](t)(client.OpenFile(filepath.Join(dir, "b"), os.O_WRONLY, 0))
	if n, err := f.CopyRange(1<<20-5, 10, g, 1<<20); n != 5 ||
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a copy beyond the end: %d, %v", n, err)
	}
	if err := g.Sync(); err != nil {
		t.Error(err)
	}
	if stat, err := g.StatVFS(); err != nil || stat.Namemax == 0 {
		t.Error(stat, err)
	}
	link := filepath.Join(dir, "l")
	ok(t, client.Symlink("nowhere", link))
	when := time.Unix(1_000_000_000, 0)
	ok(t, client.Lchtimes(link, when, when))
	if info := must[fs.FileInfo](t)(os.Lstat(link)); !info.ModTime().Equal(when) {
		t.Errorf("the link is of %v", info.ModTime())
	}
	if target, err := os.Readlink(link); target != "nowhere" || err != nil {
		t.Error(target, err)
	}
	ok(t, client.Link(source, filepath.Join(dir, "c")))
	if err := client.Mkdir(source); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if dir, err := client.Getwd(); !filepath.IsAbs(dir) || err != nil {
		t.Error(dir, err)
	}
}

func TestSetstatFamily(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/f", []byte("0123456789"))
	when := time.Unix(1_700_000_000, 0)
	ok(t, r.Chmod("/f", 0o600|fs.ModeSetuid))
	ok(t, r.Chown("/f", 7, 8))
	ok(t, r.Truncate("/f", 4))
	ok(t, r.Chtimes("/f", when, when))
	info := must[fs.FileInfo](t)(r.Stat("/f"))
	stat := info.Sys().(*usftp.FileStat)
	if info.Mode() != 0o600|fs.ModeSetuid || stat.UID != 7 || stat.GID != 8 ||
		!info.ModTime().Equal(when) || info.Size() != 4 {
		t.Errorf("%v %+v", info, stat)
	}
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR, 0))
	ok(t, f.Chmod(0o640))
	ok(t, f.Chown(9, 10))
	ok(t, f.Truncate(3))
	must[fs.FileInfo](t)(f.Stat())
	if f.Mode() != 0o640 || f.UID() != 9 || f.GID() != 10 || f.Size() != 3 {
		t.Errorf("%v %+v", f.Info(), f.FileStat())
	}
	for what, err := range map[string]error{
		"chown": r.Chown("/f", -1, 0), "chtimes": r.Chtimes("/f", time.Unix(-1, 0),
			when), "truncate": r.Truncate("/f", -1),
		"chtimes late": r.Chtimes("/f", when, time.Unix(1<<32, 0)), "f.truncate": f.Truncate(-1),
	} {
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCopyFails: whichever side fails, its error comes back, with what was copied.
func TestCopyFails(t *testing.T) {
	for _, extensions := range [][]wire.ExtensionPair{nil, {}} {
		for path, kind := range map[string]wire.Type{"/a": wire.TypeRead, "/b": wire.TypeWrite} {
			if extensions == nil {
				kind = wire.TypeExtended
			}
			r := newRig(t, sftptest.Script{Extensions: extensions, Faults: []sftptest.Fault{
				{On: kind, From: 600_000, To: 1 << 40,
					Do: sftptest.Refuse(wire.PermissionDenied, "enough")},
			}}, 0)
			r.server.Files.WriteFile("/a", noise(1<<20))
			if extensions == nil {
				r.server.AddFaults(sftptest.Fault{On: kind, Extension: wire.ExtCopyData,
					Do: sftptest.Refuse(wire.PermissionDenied, "enough")})
			}
			n, err := r.CopyFile("/a", "/b")
			if n > 600_000 || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%v, %s: %d, %v", extensions, path, n, err)
			}
			r.Stat("/")
			if _, err := r.Stat("/"); err != nil || r.server.OpenHandles() != 0 {
				t.Errorf("%v, %s: %v, %d handles are open", extensions, path, err,
					r.server.OpenHandles())
			}
		}
	}
}
