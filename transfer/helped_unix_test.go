//go:build linux || darwin || freebsd

package transfer_test

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// helpedFiles are so many that a helper is started, and some remain for it.
const helpedFiles = 1000

// A helpedHost has OpenSSH's server, and ours as a helper, over what conn returns.
type helpedHost struct {
	pool.Host
	helper *usftp.Client
	asked  atomic.Int64
	looks  func() // is called before the helper looks at anything
}

// helperFiles are the files of a helper.
type helperFiles struct {
	*osfs.FS
	host *helpedHost
}

func (f helperFiles) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if f.host.looks != nil {
		f.host.looks()
	}
	return f.FS.Lstat(ctx, name)
}

// newHelpedHost starts both servers. The first files wait for the helper.
func newHelpedHost(t *testing.T, conn func(net.Conn) net.Conn) *helpedHost {
	t.Helper()
	cmd := exec.Command(opensshd.Find(t, "sftp-server"))
	out, err := cmd.StdoutPipe()
	mustDo(t, err)
	in, err := cmd.StdinPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	client, err := usftp.NewClientPipe(out, in, usftp.WithServerVersion("SSH-2.0-OpenSSH_9.2"))
	mustDo(t, err)
	t.Cleanup(func() {
		client.Close()
		cmd.Wait()
	})
	h := &helpedHost{}
	files, err := osfs.New("/")
	mustDo(t, err)
	t.Cleanup(func() { files.Close() })
	near, _ := serve(t, helperFiles{files, h}, nil)
	if conn != nil {
		near = conn(near)
	}
	h.helper = connect(t, near, ours).Client
	h.Host = pool.Host{Client: client, Name: "helped", Helper: func(context.Context) *usftp.Client {
		h.asked.Add(1)
		return h.helper
	}}
	return h
}

// helpedOptions are those of a copy that stops once it has begun a helper, until that is ready or
// has failed, so that the rest of many files is left for it.
func helpedOptions(t *testing.T) (o transfer.TreeOptions) {
	done, ready := 0, transfer.HelperBegun(t)
	o.Preserve, o.NoTargetDirectory, o.MaxFiles = true, true, 32
	o.Events = func(e transfer.Event) {
		if e.Kind != transfer.Done {
			return
		}
		if done++; done == helpedFiles/2+20 { // of the helper's 512
			<-ready
		}
	}
	return o
}

// TestHelperSavesRequests: most small files go through the helper, several in one request. In
// directories with few files none do, and of few files none at all.
func TestHelperSavesRequests(t *testing.T) {
	for name, test := range map[string]struct {
		files, folders int
		helps          bool
	}{
		"many":        {helpedFiles, 7, true},
		"few":         {300, 7, false},
		"few in each": {helpedFiles, helpedFiles / 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := newHelpedHost(t, nil), t.TempDir()
			source, there, back := filepath.Join(dir, "source"), filepath.Join(dir, "there"),
				filepath.Join(dir, "back")
			contents := smallTree(t, source, test.files, test.folders)
			folders, err := filepath.Glob(filepath.Join(source, "*"))
			mustDo(t, err)
			for _, folder := range folders {
				mustDo(t, os.Chtimes(folder, oldTime, oldTime))
			}
			requests := func(copied func() (transfer.Summary, error)) (own, helper float64) {
				t.Helper()
				ownBefore, before := h.Client.Stats().Requests, h.helper.Stats().Requests
				if r, err := copied(); err != nil || r.Files != int64(test.files) {
					t.Fatalf("%d files, %v", r.Files, err)
				}
				n := float64(test.files)
				return float64(h.Client.Stats().Requests-ownBefore) / n,
					float64(h.helper.Stats().Requests-before) / n
			}
			own, helper := requests(func() (transfer.Summary, error) {
				return transfer.CopyTree(t.Context(), transfer.Remote(h.Host, there),
					transfer.Local(source), helpedOptions(t))
			})
			if test.helps != (own < 4) || helper > 0.5 {
				t.Errorf("up: %.2f and %.2f requests for each file", own, helper)
			}
			own, helper = requests(func() (transfer.Summary, error) {
				return transfer.CopyTree(t.Context(), transfer.Local(back),
					transfer.Remote(h.Host, there), helpedOptions(t))
			})
			if gets := test.files >= helpedFiles; gets != (helper > 0) || helper > 0.5 {
				t.Errorf("down: %.2f and %.2f requests for each file", own, helper)
			}
			sameTree(t, there, contents)
			sameTree(t, back, contents)
			for _, folder := range folders { // where the helper was proved, too
				info, err := os.Stat(filepath.Join(there, filepath.Base(folder)))
				if err != nil || !info.ModTime().Equal(oldTime) {
					t.Errorf("%s has another time: %v, %v", folder, info, err)
				}
			}
		})
	}
}

// TestHelperInABusyDirectory: whenever the two servers look, the directory has another time.
func TestHelperInABusyDirectory(t *testing.T) {
	h, dir := newHelpedHost(t, nil), t.TempDir()
	source, there := filepath.Join(dir, "source"), filepath.Join(dir, "there")
	contents := smallTree(t, source, helpedFiles, 1)
	folders, err := filepath.Glob(filepath.Join(source, "*"))
	mustDo(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var changing sync.WaitGroup
	h.looks = sync.OnceFunc(func() {
		changing.Go(func() {
			for now := time.Now(); ctx.Err() == nil; now = now.Add(time.Second) {
				os.Chtimes(filepath.Join(there, filepath.Base(folders[0])), now, now)
			}
		})
	})
	before, options := h.helper.Stats().Requests, helpedOptions(t)
	options.MaxFiles = 1 // so that nothing else changes the time while it is looked at
	r, err := transfer.CopyTree(t.Context(), transfer.Remote(h.Host, there),
		transfer.Local(source), options)
	cancel()
	changing.Wait()
	if err != nil || r.Files != helpedFiles {
		t.Fatalf("%d files, %v", r.Files, err)
	}
	sameTree(t, there, contents)
	if got := h.helper.Stats().Requests - before; got <= 20 { // a proof takes a handful
		t.Errorf("the helper got %d requests", got)
	}
}

// A muteConn passes so many bytes to the helper, and then none, as if it hung, or is closed.
type muteConn struct {
	net.Conn
	left   atomic.Int64
	closes bool
}

func (c *muteConn) Write(p []byte) (int, error) {
	if c.left.Add(-int64(len(p))) > 0 {
		return c.Conn.Write(p)
	}
	if c.closes {
		return 0, c.Conn.Close()
	}
	return len(p), nil
}

// TestHelperFails: files that were given to a helper that hangs or ends, at any time, arrive all
// the same, and nothing is left of what it may have done.
func TestHelperFails(t *testing.T) {
	for _, closes := range []bool{true, false} {
		for _, after := range []int64{100, 400, 5_000, 200_000} {
			t.Run(fmt.Sprint(closes, after), func(t *testing.T) {
				transfer.SetHelperPatience(t, time.Second/4)
				var conn *muteConn
				h := newHelpedHost(t, func(c net.Conn) net.Conn {
					conn = &muteConn{Conn: c, closes: closes}
					conn.left.Store(after + 1000) // INIT
					return conn
				})
				dir := t.TempDir()
				source, there, back := filepath.Join(dir, "source"), filepath.Join(dir, "there"),
					filepath.Join(dir, "back")
				contents := smallTree(t, source, helpedFiles, 7)
				r, err := transfer.CopyTree(t.Context(), transfer.Remote(h.Host, there),
					transfer.Local(source), helpedOptions(t))
				if err != nil || r.Files != helpedFiles || h.asked.Load() != 1 {
					t.Fatalf("%d files, %v, and a helper was asked for %d times", r.Files, err,
						h.asked.Load())
				}
				sameTree(t, there, contents)
				r, err = transfer.CopyTree(t.Context(), transfer.Local(back),
					transfer.Remote(h.Host, there), helpedOptions(t))
				if err != nil || r.Files != helpedFiles {
					t.Fatalf("%d files, %v", r.Files, err)
				}
				sameTree(t, back, contents)
			})
		}
	}
}
