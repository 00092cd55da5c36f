//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// mountAtomic mounts a directory of our server in which files appear when they are closed.
func mountAtomic(t *testing.T, cache time.Duration) (s *scripted, dir string) {
	t.Helper()
	s, dir, _ = mountAtomicCut(t, cache)
	return s, dir
}

// mountAtomicCut works like mountAtomic, and returns what cuts the connection just before the next
// request is sent.
func mountAtomicCut(t *testing.T, cache time.Duration) (s *scripted, dir string, cut func()) {
	t.Helper()
	dir = t.TempDir()
	files, err := osfs.NewAtomic(dir)
	if err != nil {
		t.Fatal(err)
	}
	s = &scripted{}
	var served sync.WaitGroup
	var cuts atomic.Bool
	var host pool.Host
	host.Redial = func(context.Context) (pool.Host, error) {
		near, far := net.Pipe()
		served.Go(func() { server.Serve(context.Background(), far, files, nil) })
		client, err := usftp.NewClientPipe(near, cutWriter{near, &cuts},
			usftp.WithServerVersion("SSH-2.0-usftp"))
		return pool.Host{Client: client, Redial: host.Redial}, err
	}
	host, err = host.Redial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.FS, err = New(t.Context(), host, Options{Root: "/", Timeout: scriptedTimeout, Cache: cache,
		Buffer: bufferSize, RescueDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.FS.link.latest().Close()
		served.Wait()
		files.Close()
	})
	return s, dir, func() { cuts.Store(true) }
}

// A cutWriter closes its connection instead of writing, once it is told to.
type cutWriter struct {
	net.Conn
	cuts *atomic.Bool
}

func (w cutWriter) Write(p []byte) (int, error) {
	if w.cuts.Swap(false) {
		w.Close()
	}
	return w.Conn.Write(p)
}

// A program that has emptied a file sees what it has written to it since, though the name belongs to
// the old file until the new one is closed.
func TestSizeOfAnUpload(t *testing.T) {
	for _, cache := range []time.Duration{0, time.Minute} {
		t.Run(cache.String(), func(t *testing.T) { sizeOfAnUpload(t, cache) })
	}
}

func sizeOfAnUpload(t *testing.T, cache time.Duration) {
	s, dir := mountAtomic(t, cache)
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("old contents"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
	size := func(want uint64) {
		t.Helper()
		if attr, status := o.getAttr(); status != fuse.OK || attr.Size != want {
			t.Errorf("it has %d bytes, %v; want %d", attr.Size, status, want)
		}
		var out fuse.EntryOut
		if status := s.Lookup(nil, root(), "file", &out); status != fuse.OK || out.Size != want {
			t.Errorf("by name it has %d bytes, %v; want %d", out.Size, status, want)
		}
	}
	size(0)
	o.write(0, "new")
	size(3)
	if status := o.sync(); status != fuse.OK {
		t.Error(status)
	}
	size(3)
	if got, err := os.ReadFile(name); string(got) != "old contents" {
		t.Errorf("the old file is %q, %v", got, err)
	}
	if status := o.flush(); status != fuse.OK {
		t.Error(status)
	}
	size(3)
	o.Release(nil, &fuse.ReleaseIn{InHeader: o.header, Fh: o.fh})
	size(3)
	if got, err := os.ReadFile(name); string(got) != "new" {
		t.Errorf("the file is %q, %v", got, err)
	}
}

// A file that is made and emptied by a program that only reads it appears at once.
func TestEmptyUploadThatIsOnlyRead(t *testing.T) {
	s, dir := mountAtomic(t, time.Minute)
	var out fuse.CreateOut
	in := &fuse.CreateIn{InHeader: *root(), Flags: uint32(os.O_RDONLY | os.O_CREATE | os.O_TRUNC),
		Mode: 0o600}
	if status := s.Create(nil, in, "file", &out); status != fuse.OK {
		t.Fatal(status)
	}
	rename := &fuse.RenameIn{InHeader: *root(), Newdir: fuse.FUSE_ROOT_ID}
	if status := s.Rename(nil, rename, "file", "other"); status != fuse.OK {
		t.Error(status)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Error(err)
	}
}

// What a program does to a file that it has emptied, also if it writes nothing, is there when it
// closes the file: the time that cp -p sets is that of the new file.
func TestTimeOfAnUpload(t *testing.T) {
	for _, data := range []string{"", "new"} {
		s, dir := mountAtomic(t, time.Minute)
		name := filepath.Join(dir, "file")
		if err := os.WriteFile(name, []byte("old contents"), 0o644); err != nil {
			t.Fatal(err)
		}
		o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
		if data != "" {
			o.write(0, data)
		}
		want := time.Unix(1e9, 0)
		if data != "" {
			in := &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: o.header, Fh: o.fh,
				Valid: fuse.FATTR_FH | fuse.FATTR_MTIME, Mtime: uint64(want.Unix())}}
			if status := s.SetAttr(nil, in, new(fuse.AttrOut)); status != fuse.OK {
				t.Fatal(status)
			}
		}
		if status := o.flush(); status != fuse.OK {
			t.Fatal(status)
		}
		info, err := os.Stat(name)
		if err != nil || info.Size() != int64(len(data)) {
			t.Errorf("%q: %v, %v", data, info, err)
		} else if data != "" && !info.ModTime().Equal(want) {
			t.Errorf("its time is %v", info.ModTime())
		}
	}
}

// A program that has a file open reads what another program on the mount writes to it, also if that
// one empties it first, which makes another file on the host.
func TestReadDuringUpload(t *testing.T) {
	for _, cache := range []time.Duration{0, time.Minute} {
		s, dir := mountAtomic(t, cache)
		name := filepath.Join(dir, "file")
		if err := os.WriteFile(name, []byte("old contents"), 0o644); err != nil {
			t.Fatal(err)
		}
		reader := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
		read := func(want string) {
			t.Helper()
			got, status := reader.read(20)
			if status != fuse.OK || got != want {
				t.Errorf("cache %v: read %q, %v; want %q", cache, got, status, want)
			}
			if attr, status := reader.getAttr(); status != fuse.OK || attr.Size != uint64(len(want)) {
				t.Errorf("cache %v: %d bytes, %v", cache, attr.Size, status)
			}
		}
		read("old contents")
		w := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
		w.write(0, "new")
		if status := w.flush(); status != fuse.OK {
			t.Fatal(status)
		}
		read("new")
		w.Release(nil, &fuse.ReleaseIn{InHeader: w.header, Fh: w.fh})
		testenv.Until(t, "the close", func() bool {
			return len(s.files.get(reader.fh).file.all()) == 1
		})
		read("new")
		if status := reader.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MODE,
			Mode: 0o600}); status != fuse.OK {
			t.Errorf("cache %v: chmod: %v", cache, status)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("cache %v: %v, %v", cache, info, err)
		}
	}
}

// If the connection is lost before the host has closed a file, the program's close succeeds only if
// the file has appeared.
func TestLostCloseOfAnUpload(t *testing.T) {
	for _, c := range []struct {
		old, data string
		status    fuse.Status
	}{{"", "new", fuse.OK}, {"", "", fuse.OK}, {"old", "", fuse.Status(syscall.ESTALE)},
		{"new, and longer", "new", fuse.Status(syscall.ESTALE)}} {
		s, dir, cut := mountAtomicCut(t, time.Minute)
		name := filepath.Join(dir, "file")
		var o *opened
		if c.old == "" {
			o = s.create(t, "file")
		} else {
			if err := os.WriteFile(name, []byte(c.old), 0o644); err != nil {
				t.Fatal(err)
			}
			o = s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
		}
		if c.data != "" {
			o.write(0, c.data)
		}
		if status := o.sync(); status != fuse.OK {
			t.Fatal(status)
		}
		cut()
		status := o.flush()
		want := c.data
		if status != fuse.OK {
			want = c.old
		}
		if got, err := os.ReadFile(name); status != c.status || err != nil || string(got) != want {
			t.Errorf("%+v: %v, and the file is %q, %v", c, status, got, err)
		}
	}
}

// rewrites has a program empty the file, write new data to it, and not close it yet.
func (s *scripted) rewrites(t *testing.T) *opened {
	t.Helper()
	w := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
	w.write(0, "new")
	if status := w.sync(); status != fuse.OK {
		t.Fatal(status)
	}
	return w
}

// If a program changes a file while another one on the mount rewrites it, the new file gets the
// change: written data, or a size that is set by a handle or by name.
func TestChangeDuringUpload(t *testing.T) {
	for what, c := range map[string]struct {
		flags  int
		change func(o *opened) fuse.Status
		want   string
	}{
		"write": {os.O_RDWR, func(o *opened) fuse.Status {
			o.write(1, "E")
			return o.sync()
		}, "nEw"},
		"append": {os.O_WRONLY | os.O_APPEND, func(o *opened) fuse.Status {
			o.write(3, "er")
			return o.sync()
		}, "newer"},
		"truncate": {os.O_RDWR, func(o *opened) fuse.Status {
			return o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_SIZE, Size: 2})
		}, "ne"},
		"truncate by name": {os.O_RDONLY, func(o *opened) fuse.Status {
			return o.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{
				InHeader: o.header, Valid: fuse.FATTR_SIZE, Size: 2}}, new(fuse.AttrOut))
		}, "ne"},
	} {
		s, dir := mountAtomic(t, time.Minute)
		name := filepath.Join(dir, "file")
		if err := os.WriteFile(name, []byte("old contents"), 0o644); err != nil {
			t.Fatal(err)
		}
		other := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", c.flags)
		w := s.rewrites(t)
		if status := c.change(other); status != fuse.OK {
			t.Errorf("%s: %v", what, status)
		}
		if status := w.flush(); status != fuse.OK {
			t.Errorf("%s: close: %v", what, status)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != c.want {
			t.Errorf("%s: the file is %q, %v; want %q", what, got, err, c.want)
		}
	}
}

// If an upload fails, the name keeps the old file, and programs go on to read that.
func TestReadAfterFailedUpload(t *testing.T) {
	s, dir := mountAtomic(t, 0)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	reader := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_RDONLY)
	w := s.rewrites(t)
	hidden, err := filepath.Glob(filepath.Join(dir, ".upload-*"))
	if err != nil || len(hidden) != 1 {
		t.Fatal(hidden, err)
	}
	if err := os.Remove(hidden[0]); err != nil {
		t.Fatal(err)
	}
	if status := w.flush(); status == fuse.OK {
		t.Error("the close succeeds")
	}
	if got, status := reader.read(10); got != "old" || status != fuse.OK {
		t.Errorf("read: %q, %v", got, status)
	}
}

// An old file that ends as the new one does is not taken for it, whatever time a program has set.
func TestLostCloseOverSimilarFile(t *testing.T) {
	for _, retimed := range []string{"", "before", "by the close"} {
		s, dir, cut := mountAtomicCut(t, time.Minute)
		name := filepath.Join(dir, "file")
		if err := errors.Join(os.WriteFile(name, []byte("oldtail"), 0o644),
			os.Chtimes(name, time.Unix(1e9, 0), time.Unix(1e9, 0))); err != nil {
			t.Fatal(err)
		}
		o := s.openFlags(t, fuse.FUSE_ROOT_ID, "file", os.O_WRONLY|os.O_TRUNC)
		for i, text := range []string{"new", "t", "a", "i", "l"} {
			o.write(max(0, 2+i)*min(i, 1), text)
			if status := s.files.get(o.fh).file.flush(t.Context()); status != nil {
				t.Fatal(status)
			}
		}
		if retimed != "" {
			if status := o.setAttr(fuse.SetAttrInCommon{Valid: fuse.FATTR_MTIME,
				Mtime: 1e9 + 1}); status != fuse.OK {
				t.Fatal(status)
			}
		}
		if retimed == "before" {
			o.sync()
		}
		cut()
		status := o.flush()
		got, err := os.ReadFile(name)
		if err != nil || (status == fuse.OK) != (string(got) == "newtail") {
			t.Errorf("retimed %q: %v, and the file is %q, %v", retimed, status, got, err)
		}
	}
}
