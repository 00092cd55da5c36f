//go:build linux || darwin || freebsd

package transfer_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/transfer"
)

// uploadsHost is our server over a directory that shows files when they are closed.
type uploadsHost struct {
	t      *testing.T
	files  server.FS
	denied []string
	quota  *server.Quota

	ended chan struct{} // the session is over

	mu   sync.Mutex
	sent []string // paths of files that were opened to be written
}

// connect opens a session that is cut once the client has sent so much, if most is not 0.
func (h *uploadsHost) connect(most int) pool.Host {
	h.mu.Lock()
	h.sent = nil
	h.mu.Unlock()
	cut := &cutConn{left: most}
	cut.Conn, h.ended = serve(h.t, h.files, &server.Options{Events: h.note,
		Policy: server.Policy{Denied: h.denied, Quota: h.quota}})
	return connect(h.t, cut, ours)
}

func (h *uploadsHost) note(e server.Event) {
	if e.Kind != server.FileOpened || !e.Upload {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, e.Path)
}

// opened returns what was opened to be written, and whether the file was, under its own name only.
func (h *uploadsHost) opened() (sent []string, itself bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent, slices.Contains(h.sent, "/target") &&
		!slices.ContainsFunc(h.sent, func(name string) bool {
			return strings.HasPrefix(name, "/.target.")
		})
}

// listed returns what others see.
func (h *uploadsHost) listed() (names []string) {
	list, err := h.connect(0).Client.ReadDir("/")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, info := range list {
		names = append(names, path.Base(info.Name()))
	}
	return names
}

// cutConn closes after left bytes, if that is not 0 at first.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.left == 0 {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		c.left = -1
	}
	if c.left < 0 {
		c.Conn.Close()
	}
	return n, err
}

// newUploadsHost serves a directory.
func newUploadsHost(t *testing.T) *uploadsHost {
	files, err := osfs.NewAtomic(t.TempDir())
	mustDo(t, err)
	t.Cleanup(func() { files.Close() })
	return &uploadsHost{t: t, files: files}
}

const (
	uploadSize = 40 << 20
	uploadCut  = 30 << 20
)

// TestUploadsWithoutTemporaryNames: a new file is sent under its own name. Of a connection that is
// cut others see nothing, cp -u does not take what is kept for the file, and --resume goes on from
// it.
func TestUploadsWithoutTemporaryNames(t *testing.T) {
	data := random(uploadSize)
	for name, options := range map[string]transfer.Options{
		"again":        {},
		"update":       {Destination: transfer.Destination{Update: true}},
		"resume":       {Resume: true},
		"tree":         {},
		"resumed tree": {Resume: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newUploadsHost(t)
			dir := t.TempDir()
			local := filepath.Join(dir, "in", "target")
			mustDo(t, os.Mkdir(filepath.Dir(local), 0o755))
			mustDo(t, os.WriteFile(local, data, 0o644))
			mustDo(t, os.Chtimes(local, oldTime, oldTime))
			options.Journal = filepath.Join(dir, "journal")
			run := func(most int) (resumed int64, err error) {
				host := h.connect(most)
				if strings.HasSuffix(name, "tree") {
					r, err := transfer.CopyTree(t.Context(), transfer.Remote(host, "/"),
						transfer.Local(filepath.Dir(local)+"/."), transfer.TreeOptions{Options: options})
					return r.Resumed, err
				}
				r, err := transfer.Copy(t.Context(), transfer.Remote(host, "/target"),
					transfer.Local(local), options)
				return r.Resumed, err
			}
			if _, err := run(uploadCut); err == nil {
				t.Fatal("the connection was not cut")
			}
			<-h.ended
			if sent, itself := h.opened(); !itself {
				t.Errorf("opened: %q", sent)
			}
			if names := h.listed(); len(names) > 0 {
				t.Errorf("others see %q", names)
			}
			resumed, err := run(0)
			if err != nil {
				t.Fatal(err)
			}
			if (resumed > 0) != options.Resume {
				t.Errorf("%d bytes were gone on from", resumed)
			}
			if sent, itself := h.opened(); !itself {
				t.Errorf("opened: %q", sent)
			}
			h.holds(data)
		})
	}
}

// TestUploadsKeepWhatIsThere: a file that is replaced stays whole if the connection is cut, and a
// large one that replaces it is gone on with, for which it has a temporary name.
func TestUploadsKeepWhatIsThere(t *testing.T) {
	data, old := random(uploadSize), random(1000)
	h := newUploadsHost(t)
	dir := t.TempDir()
	local := filepath.Join(dir, "target")
	mustDo(t, os.WriteFile(local, data, 0o644))
	mustDo(t, h.connect(0).Client.WriteFile("/target", old, 0o644))
	options := transfer.Options{Resume: true, Journal: filepath.Join(dir, "journal")}
	run := func(most int) (transfer.Result, error) {
		return transfer.Copy(t.Context(), transfer.Remote(h.connect(most), "/target"),
			transfer.Local(local), options)
	}
	if _, err := run(uploadCut); err == nil {
		t.Fatal("the connection was not cut")
	}
	<-h.ended
	h.holds(old)
	if r, err := run(0); err != nil || r.Resumed == 0 {
		t.Errorf("%d bytes were gone on from, %v", r.Resumed, err)
	}
	h.holds(data)
}

// TestUploadsThatOthersFinish: what was kept is not gone on with once somebody else has given the
// file its name: that one is replaced as a whole.
func TestUploadsThatOthersFinish(t *testing.T) {
	data := random(uploadSize)
	h := newUploadsHost(t)
	dir := t.TempDir()
	local := filepath.Join(dir, "target")
	mustDo(t, os.WriteFile(local, data, 0o644))
	options := transfer.Options{Resume: true, Journal: filepath.Join(dir, "journal")}
	if _, err := transfer.Copy(t.Context(), transfer.Remote(h.connect(uploadCut), "/target"),
		transfer.Local(local), options); err == nil {
		t.Fatal("the connection was not cut")
	}
	<-h.ended
	mustDo(t, h.connect(0).Client.WriteFile("/target", data[:uploadSize-1], 0o644))
	r, err := transfer.Copy(t.Context(), transfer.Remote(h.connect(0), "/target"),
		transfer.Local(local), options)
	if err != nil || r.Resumed > 0 {
		t.Errorf("%d bytes were gone on from, %v", r.Resumed, err)
	}
	if sent, itself := h.opened(); itself {
		t.Errorf("the other file was opened: %q", sent)
	}
	h.holds(data)
}

// TestUploadsProvedBeforeTheyAreShown: what was kept is not gone on with if the copy is to be
// compared with a list now, since it would be shown before that.
func TestUploadsProvedBeforeTheyAreShown(t *testing.T) {
	h := newUploadsHost(t)
	dir := t.TempDir()
	local, sums := filepath.Join(dir, "target"), filepath.Join(dir, "sums")
	mustDo(t, os.WriteFile(local, random(uploadSize), 0o644))
	mustDo(t, os.WriteFile(sums, []byte(strings.Repeat("0", 64)+"  target\n"), 0o644))
	options := transfer.Options{Resume: true, Journal: filepath.Join(dir, "journal")}
	run := func(most int) error {
		_, err := transfer.Copy(t.Context(), transfer.Remote(h.connect(most), "/target"),
			transfer.Local(local), options)
		return err
	}
	if run(uploadCut) == nil {
		t.Fatal("the connection was not cut")
	}
	<-h.ended
	list, err := checksum.Open(sums, checksum.SHA256)
	mustDo(t, err)
	defer list.Close()
	options.List = list
	if err := run(0); !errors.Is(err, checksum.ErrMismatch) {
		t.Errorf("it ended with %v", err)
	}
	if names := h.listed(); len(names) > 0 {
		t.Errorf("others see %q", names)
	}
}

// TestUploadsGivenUp: nothing is kept of a source that fails, and somebody else may have the name.
func TestUploadsGivenUp(t *testing.T) {
	cause := errors.New("the source fails")
	h := newUploadsHost(t)
	host := h.connect(0)
	_, err := transfer.Copy(t.Context(), transfer.Remote(host, "/target"),
		transfer.Reader(&failing{left: 9 << 20, err: cause}), transfer.Options{})
	if !errors.Is(err, cause) {
		t.Errorf("the copy ended with %v", err)
	}
	if info, err := host.Client.Stat("/target"); err == nil && info.Size() > 0 ||
		err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is left: %v, %v", info, err)
	}
	mustDo(t, host.Client.WriteFile("/target", []byte("other"), 0o644))
	h.holds([]byte("other"))
}

// failing reads so many zeros, and then fails.
type failing struct {
	left int
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, f.err
	}
	n := min(len(p), f.left)
	f.left -= n
	clear(p[:n])
	return n, nil
}

// holds checks what everybody sees.
func (h *uploadsHost) holds(want []byte) {
	h.t.Helper()
	got, err := h.connect(0).Client.ReadFile("/target")
	if err != nil || !bytes.Equal(got, want) {
		h.t.Errorf("the target has %d bytes, %v; want %d", len(got), err, len(want))
	}
	if names := h.listed(); !slices.Equal(names, []string{"target"}) {
		h.t.Errorf("others see %q", names)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pausingConn reads nothing for an hour once paused is set.
type pausingConn struct {
	net.Conn
	paused atomic.Bool
}

func (c *pausingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.paused.CompareAndSwap(true, false) {
		time.Sleep(time.Hour)
	}
	return n, err
}

// A sync that could not look at its lock for long looks at it before it closes a small file, which
// shows the file.
func TestSyncLockIsCheckedBeforeAFileIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = `{"host":"alpha","pid":7,"id":"other"}`
		h := newUploadsHost(t)
		src := t.TempDir()
		mustDo(t, os.WriteFile(filepath.Join(src, "file"), random(100<<10), 0o644))
		conn := new(pausingConn)
		conn.Conn, _ = serve(t, h.files, &server.Options{Events: func(e server.Event) {
			if e.Kind == server.FileOpened && strings.HasSuffix(e.Path, "file") {
				conn.paused.Store(true)
			}
		}})
		host := connect(t, conn, ours)
		time.AfterFunc(lockTakenOver, func() {
			err := h.connect(0).Client.WriteFile("/copy/"+transfer.LockName, []byte(other), 0o644)
			if err != nil {
				t.Error(err)
			}
		})
		_, err := transfer.Sync(t.Context(), transfer.Remote(host, "/copy"),
			transfer.Local(src), transfer.SyncOptions{})
		if err == nil || !strings.Contains(err.Error(), "taken over the lock") {
			t.Errorf("it ended with %v", err)
		}
		list, err := h.connect(0).Client.ReadDir("/copy")
		if err != nil || len(list) != 1 { // the lock
			t.Errorf("others see %v, %v", list, err)
		}
	})
}
