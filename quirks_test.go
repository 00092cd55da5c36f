package usftp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// workout does what programs do with a server, in its own directory, and checks the results.
func workout(t *testing.T, c *usftp.Client, dir string, lacks ...string) {
	t.Helper()
	has := func(what string) bool { return !slices.Contains(lacks, what) }
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	data := noise(600_001)
	name := func(base string) string { return path.Join(dir, base) }

	check("mkdirall", c.MkdirAll(name("a/b")))
	check("mkdirall again", c.MkdirAll(name("a/b")))
	if err := c.Mkdir(name("a")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("mkdir of what exists: %v", err)
	}
	writers := map[string]func(f *usftp.File) error{
		"write":   func(f *usftp.File) error { _, err := f.Write(data); return err },
		"writeat": func(f *usftp.File) error { _, err := f.WriteAt(data, 0); return err },
		"readfrom": func(f *usftp.File) error {
			_,
				err := f.ReadFrom(bytes.NewReader(data))
			return err
		},
		"writer": func(f *usftp.File) error {
			w := f.Writer()
			for rest := data; len(rest) > 0; rest = rest[min(len(rest), 10_000):] {
				if _, err := w.Write(rest[:min(len(rest), 10_000)]); err != nil {
					return err
				}
			}
			return w.Close()
		},
	}
	for how, write := range writers {
		if !has(how) {
			continue
		}
		f, err := c.Create(name(how))
		if err != nil {
			t.Errorf("create: %v", err)
			continue
		}
		check(how, write(f))
		check("close", f.Close())
		got, err := c.ReadFile(name(how))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: the file differs, %d bytes, %v", how, len(got), err)
		}
	}
	if has("readat") {
		f, err := c.Open(name("write"))
		check("open", err)
		p := make([]byte, 200_000)
		n, err := f.ReadAt(p, 500_000)
		if err != io.EOF || !bytes.Equal(p[:n], data[500_000:]) {
			t.Errorf("readat: %d, %v", n, err)
		}
		if got := readAll(t, f, 7000); !bytes.Equal(got, data) {
			t.Errorf("read: %d bytes differ", len(got))
		}
		check("close", f.Close())
	}
	if has("stat") {
		info, err := c.Stat(name("write"))
		if err != nil || info.Size() != int64(len(data)) || !info.Mode().IsRegular() {
			t.Errorf("stat: %v, %v", info, err)
		}
	}
	files, err := c.ReadDir(dir)
	if err != nil || len(files) != 1+len(writers)-countOf(lacks, "write", "writeat", "readfrom",
		"writer") {
		t.Errorf("readdir: %v, %v", names(files), err)
	}
	check("rename", c.Rename(name("write"), name("renamed")))
	if _, err := c.Stat(name("write")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of nothing: %v", err)
	}
	if _, err := c.Open(name("write")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of nothing: %v", err)
	}
	if has("symlink") {
		check("symlink", c.Symlink("renamed", name("link")))
		if target, err := c.ReadLink(name("link")); path.Base(target) != "renamed" || err != nil {
			t.Errorf("readlink: %q, %v", target, err)
		}
	}
	if has("setstat") {
		check("chmod", c.Chmod(name("renamed"), 0o600))
		check("chtimes", c.Chtimes(name("renamed"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}
	n := 0
	check("walk", c.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
		n++
		return err
	}))
	if n < 4 {
		t.Errorf("the walk has seen %d entries", n)
	}
	check("removeall", c.RemoveAllIn(dir))
	if files, err := c.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("after all was removed: %v, %v", names(files), err)
	}
}

func countOf(list []string, of ...string) (n int) {
	for _, s := range list {
		if slices.Contains(of, s) {
			n++
		}
	}
	return n
}

// TestServersThatDiffer uses scripts for quirks that no available server has.
func TestServersThatDiffer(t *testing.T) {
	none := []wire.ExtensionPair{}
	for name, test := range map[string]struct {
		script sftptest.Script
		lacks  []string
	}{
		"OpenSSH's like":      {sftptest.Script{}, nil},
		"no extensions":       {sftptest.Script{Extensions: none}, nil},
		"reads of 32 KiB":     {sftptest.Script{ShortReads: 32 << 10}, nil},
		"reads of 1 KiB":      {sftptest.Script{ShortReads: 1 << 10}, nil},
		"reads of any length": {sftptest.Script{RandomReads: true, Seed: 5}, nil},
		"no FSTAT":            {sftptest.Script{Refuse: []wire.Type{wire.TypeFstat}}, nil},
		"no SETSTAT": {sftptest.Script{Refuse: []wire.Type{wire.TypeSetstat,
			wire.TypeFsetstat}}, []string{"setstat"}},
		"no opening for both":     {sftptest.Script{NoReadWrite: true}, nil},
		"writes in sequence":      {sftptest.Script{SequentialWrites: true}, nil},
		"one write at a time":     {sftptest.Script{OneWrite: true}, []string{"writer"}},
		"reads in sequence":       {sftptest.Script{SequentialReads: true}, []string{"readat"}},
		"no messages":             {sftptest.Script{NoMessages: true}, nil},
		"no messages, no lengths": {sftptest.Script{BareStatus: true}, nil},
		"richer codes":            {sftptest.Script{RichCodes: true}, nil},
		"replies in any order":    {sftptest.Script{Reorder: 8, Seed: 11}, nil},
		"one large listing":       {sftptest.Script{ReaddirNames: 1 << 20}, nil},
		"one name a packet":       {sftptest.Script{ReaddirNames: 1}, nil},
		"no sizes":                {sftptest.Script{HideAttrs: wire.AttrSize}, []string{"stat"}},
		"no times, no owners": {
			sftptest.Script{HideAttrs: wire.AttrACModTime | wire.AttrUIDGID}, nil},
		"links as in the draft":  {sftptest.Script{DraftSymlink: true}, nil},
		"an upload for a handle": {sftptest.Script{UploadPerHandle: true}, nil},
		"long handles":           {sftptest.Script{HandleSize: 256}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.script, 0)
			r.server.Files.Mkdir("/d")
			workout(t, r.Client, "/d", test.lacks...)
			r.Stat("/")
			if _, err := r.Stat("/"); err != nil || r.server.OpenHandles() != 0 {
				t.Errorf("%v, %d handles are open", err, r.server.OpenHandles())
			}
		})
	}
}

// TestOneWriteAtATime: concurrent WRITEs that a server refuses are repeated one by one if the
// source can be read again, and the quirk is remembered.
func TestOneWriteAtATime(t *testing.T) {
	r := newRig(t, sftptest.Script{OneWrite: true}, 0)
	data := noise(3 << 20)
	for i := range 3 {
		f := must[*usftp.File](t)(r.Create(fmt.Sprint("/", i)))
		n, err := f.ReadFrom(bytes.NewReader(data))
		if n != int64(len(data)) || err != nil {
			t.Errorf("%d: %d, %v", i, n, err)
		}
		ok(t, f.Close())
		if got := must[[]byte](t)(r.server.Files.ReadFile(fmt.Sprint("/", i))); !bytes.Equal(got,
			data) {
			t.Errorf("%d: the file differs", i)
		}
		if i == 0 {
			r.server.ForgetRequests()
		}
	}
	if n := len(r.server.Requests(wire.TypeWrite)); n != 2*13 {
		t.Errorf("%d WRITEs for twice 3 MiB, want 26: what the server refuses is remembered", n)
	}
	f := must[*usftp.File](t)(newRig(t, sftptest.Script{OneWrite: true}, 0).Create("/x"))
	if _, err := f.ReadFrom(io.MultiReader(bytes.NewReader(data))); !errors.Is(err,
		usftp.ErrSSHFxFailure) {
		t.Errorf("from a source that cannot be read again: %v", err)
	}
	to := newRig(t, sftptest.Script{OneWrite: true}, 0)
	source, f := must[*usftp.File](t)(r.Open("/0")), must[*usftp.File](t)(to.Create("/x"))
	if n, err := io.Copy(f, source); n != int64(len(data)) || err != nil {
		t.Errorf("from another file: %d, %v", n, err)
	}
	if got := must[[]byte](t)(to.server.Files.ReadFile("/x")); !bytes.Equal(got, data) {
		t.Error("from another file: the data differs")
	}
}

func TestZeroLengthData(t *testing.T) {
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead, From: 5000,
		To: 1 << 40, Do: sftptest.ZeroData()}}}, 0, usftp.WithMaxPacket(1000))
	data := noise(10_000)
	r.server.Files.WriteFile("/f", data)
	f := must[*usftp.File](t)(r.Open("/f"))
	var got bytes.Buffer
	if n, err := f.WriteTo(&got); n != 5000 || err == nil ||
		!bytes.Equal(got.Bytes(), data[:5000]) {
		t.Error(n, err)
	}
	p := make([]byte, 10_000)
	if n, err := f.ReadAt(p, 0); n != 5000 || err == nil || err == io.EOF {
		t.Error(n, err)
	}
	if n, err := f.Async().ReadAt(p, 0).Wait(); n != 5000 || err == nil || err == io.EOF {
		t.Error(n, err)
	}
	must[int64](t)(f.Seek(0, io.SeekStart))
	if n, err := io.ReadFull(f, p); n != 5000 || err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(n, err)
	}
}

// TestReadOnce: a file that vanishes once it has been read can be read whole, by each method.
func TestReadOnce(t *testing.T) {
	data := noise(1 << 20)
	r := newRig(t, sftptest.Script{ReadOnce: true}, 0, usftp.WithReadAhead(0))
	for i, read := range []func(name string) ([]byte, error){
		r.ReadFile,
		func(name string) ([]byte, error) {
			f := must[*usftp.File](t)(r.Open(name))
			defer f.Close()
			return io.ReadAll(f)
		},
		func(name string) ([]byte, error) { return fs.ReadFile(r.DirFS("/"), name[1:]) },
	} {
		name := fmt.Sprint("/", i)
		r.server.Files.WriteFile(name, data)
		if got, err := read(name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d: %d bytes, %v", i, len(got), err)
		}
	}
}

func TestStatStrategies(t *testing.T) {
	for _, test := range []struct {
		strategy usftp.StatStrategy
		asks     int // requests of three Seeks from the end of a listed file
	}{{usftp.StatLazy, 0}, {usftp.StatAlways, 3}, {usftp.StatNever, 0}} {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithStatStrategy(test.strategy))
		r.server.Files.WriteFile("/d/f", []byte("12345"))
		f := must[[]*usftp.File](t)(r.ReadDir("/d"))[0]
		ok(t, f.OpenRead())
		for range 3 {
			if n, err := f.Seek(-1, io.SeekEnd); n != 4 || err != nil {
				t.Error(n, err)
			}
		}
		if n := len(r.server.Requests(wire.TypeFstat)); n != test.asks {
			t.Errorf("%v: %d FSTATs, want %d", test.strategy, n, test.asks)
		}
		g := must[*usftp.File](t)(r.OpenFile("/d/f", os.O_RDWR, 0))
		if n, err := g.Seek(0, io.SeekEnd); (err == nil) != (test.strategy != usftp.StatNever) ||
			err == nil && n != 5 {
			t.Errorf("%v: of a file that was opened by name: %d, %v", test.strategy, n, err)
		}
	}
}
