package usftp_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

var (
	_ fs.ReadDirFS  = (*usftp.FS)(nil)
	_ fs.StatFS     = (*usftp.FS)(nil)
	_ fs.ReadFileFS = (*usftp.FS)(nil)
	_ fs.SubFS      = (*usftp.FS)(nil)
	_ fs.GlobFS     = (*usftp.FS)(nil)
	_ fs.ReadLinkFS = (*usftp.FS)(nil)
)

func TestFS(t *testing.T) {
	for name, fsys := range map[string]func(*rig) fs.FS{
		"home": func(r *rig) fs.FS { return r.FS() },
		"root": func(r *rig) fs.FS { return must[fs.FS](t)(fs.Sub(r.DirFS("/"), "home/me")) },
		"dir":  func(r *rig) fs.FS { return r.DirFS("/home/me/") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sftptest.Script{Home: "/home/me"}, 0)
			for name, data := range map[string]string{"a": "hello", "d/b": "", "d/e/f": "deep",
				"d/[x]*": "odd", "z": "last"} {
				r.server.Files.WriteFile("/home/me/"+name, []byte(data))
			}
			r.server.Files.Symlink("../a", "/home/me/d/link")
			r.server.Files.Mkdir("/home/me/empty")
			if err := fstest.TestFS(fsys(r), "a", "d/b", "d/e/f", "d/[x]*", "d/link", "empty",
				"z"); err != nil {
				t.Error(err)
			}
			if target, err := fs.ReadLink(fsys(r), "d/link"); target != "../a" || err != nil {
				t.Error(target, err)
			}
			if n := r.server.OpenHandles(); n != 0 {
				t.Errorf("%d handles are open", n)
			}
			_, err := fs.Stat(fsys(r), "none")
			var named *fs.PathError
			if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &named) || named.Path != "none" {
				t.Error(err)
			}
		})
	}
}

func TestFSOfOpenSSH(t *testing.T) {
	client := startServer(t, usftp.WithServerVersion(openSSH))
	dir := t.TempDir()
	for name, data := range map[string]string{"a": "hello", "d/b": "", "d/e/f": "deep"} {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	if err := fstest.TestFS(client.DirFS(dir), "a", "d/b", "d/e/f"); err != nil {
		t.Error(err)
	}
}

func TestOddPrefixes(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/[x]*/a", nil)
	r.server.Files.WriteFile("/xy/b", nil)
	if got, err := fs.Glob(r.DirFS("/[x]*"), "?"); err != nil || !slices.Equal(got, []string{"a"}) {
		t.Error(got, err)
	}
	r.server.Files.WriteFile("/above", nil)
	r.server.Files.WriteFile("/d/e/in", nil)
	for pattern, want := range map[string][]string{"../*": nil, "/*": nil, "e/../*": nil,
		"../above": nil, "*": {"e"}, "e/*": {"e/in"}, "*/i?": {"e/in"}, "e/in": {"e/in"}} {
		for _, root := range []string{"/d", "/d/", "//d", "/xy/../d", "/./d"} {
			if got, err := fs.Glob(r.DirFS(root), pattern); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s in %s: %q, %v", pattern, root, got, err)
			}
		}
	}
}

// A closed file of an FS, or a closed directory, says so in every method, as in package os.
func TestClosedFilesOfFS(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/d/f", noise(10))
	for _, name := range []string{"d", "d/f"} {
		f := must[fs.File](t)(r.FS().Open(name))
		ok(t, f.Close())
		_, stat := f.Stat()
		_, read := f.Read(make([]byte, 1))
		errs := map[string]error{"Stat": stat, "Read": read, "Close": f.Close()}
		if dir, is := f.(fs.ReadDirFile); is {
			_, errs["ReadDir"] = dir.ReadDir(1)
		}
		if from, is := f.(io.ReaderAt); is {
			_, errs["ReadAt"] = from.ReadAt(make([]byte, 1), 0)
		}
		if from, is := f.(io.Seeker); is {
			_, errs["Seek"] = from.Seek(0, io.SeekStart)
		}
		if from, is := f.(io.WriterTo); is {
			_, errs["WriteTo"] = from.WriteTo(io.Discard)
		}
		for what, err := range errs {
			if !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
}

func TestReader(t *testing.T) {
	for _, script := range []sftptest.Script{{}, {ShortReads: 100}, {RandomReads: true}} {
		r := newRig(t, script, 0)
		data := noise(20_000)
		r.server.Files.WriteFile("/f", data)
		f := must[*usftp.File](t)(r.Open("/f"))
		if err := iotest.TestReader(f, data); err != nil {
			t.Errorf("%v: %v", script, err)
		}
		g := must[fs.File](t)(r.DirFS("/").Open("f"))
		if err := iotest.TestReader(g, data); err != nil {
			t.Errorf("%v: %v", script, err)
		}
	}
}

func TestFileServer(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	data := noise(1 << 20)
	r.server.Files.WriteFile("/www/data.bin", data)
	r.server.Files.WriteFile("/www/sub/index.html", []byte("<p>hello"))
	web := httptest.NewServer(http.FileServerFS(r.DirFS("/www")))
	defer web.Close()
	get := func(path, ranges string) (int, string) {
		request := must[*http.Request](t)(http.NewRequest("GET", web.URL+path, nil))
		if ranges != "" {
			request.Header.Set("Range", ranges)
		}
		response := must[*http.Response](t)(web.Client().Do(request))
		defer response.Body.Close()
		return response.StatusCode, string(must[[]byte](t)(io.ReadAll(response.Body)))
	}
	for _, test := range []struct {
		path, ranges string
		code         int
		body         string
	}{
		{"/data.bin", "", 200, string(data)},
		{"/data.bin", "bytes=1000-1999", 206, string(data[1000:2000])},
		{"/data.bin", "bytes=-10", 206, string(data[1<<20-10:])},
		{"/sub/", "", 200, "<p>hello"},
	} {
		if code, body := get(test.path, test.ranges); code != test.code || body != test.body {
			t.Errorf("%s %s: %d and %d bytes", test.path, test.ranges, code, len(body))
		}
	}
	if code, _ := get("/none", ""); code != 404 {
		t.Error(code)
	}
}

func TestFSOpenTakesOneRoundTrip(t *testing.T) {
	const rtt = 100 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		r.server.Files.WriteFile("/d/f", []byte("x"))
		for _, name := range []string{"d", "d/f", "none"} {
			took := trips(rtt, func() {
				if f, err := r.DirFS("/").Open(name); err == nil {
					must[fs.FileInfo](t)(f.Stat())
					f.Close()
				} else if name != "none" {
					t.Error(err)
				}
			})
			if took != 1 {
				t.Errorf("%s: %v round trips", name, took)
			}
		}
		if _, err := r.Stat("/"); err != nil || r.server.OpenHandles() != 0 {
			t.Error(err, r.server.OpenHandles())
		}
		if n := len(r.server.Requests(wire.TypeRead)); n != 0 {
			t.Errorf("%d READs", n)
		}
	})
}

// TestNamedPipes: a named pipe that nobody writes to keeps nobody waiting.
func TestNamedPipes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gate := new(sftptest.Gate)
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeOpen,
			Do: sftptest.Hold(gate)}}}, 0)
		r.server.Files.WriteFile("/pipe", nil)
		ok(t, r.server.Files.SetMode("/pipe", fs.ModeNamedPipe|0o600))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		client := r.WithContext(ctx)
		_, read := client.ReadFile("/pipe")
		_, opened := client.DirFS("/").Open("pipe")
		for _, err := range []error{read, opened} {
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		gate.Open()
		synctest.Wait()
		if n := r.server.OpenHandles(); n != 0 {
			t.Errorf("%d handles are open", n)
		}
	})
}
