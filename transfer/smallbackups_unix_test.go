//go:build linux || darwin || freebsd

package transfer_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/transfer"
)

// deafConn loses what has come and its connection once deaf is set.
type deafConn struct {
	net.Conn
	deaf atomic.Bool
}

func (d *deafConn) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.deaf.Load() {
		d.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// connectDeaf opens a session whose client hears no more after a file has got its name.
func (h *uploadsHost) connectDeaf() pool.Host {
	client := new(deafConn)
	client.Conn, h.ended = serve(h.t, h.files, &server.Options{
		Policy: server.Policy{Denied: h.denied}, Events: func(e server.Event) {
			name := e.To // of a rename, or of a backup that is linked
			if e.Kind == server.FileClosed && e.Upload {
				name = e.Path
			}
			if name != "" && !strings.Contains(name, "/.") {
				client.deaf.Store(true)
			}
		}})
	return connect(h.t, client, ours)
}

// TestSmallFilesCutWithBackups: a sync that keeps what it replaces loses its connection again and
// again, just after files got their names. What was there is in the backup directory then, each
// file once and as it was: an attempt that is repeated does not keep what the last one put there.
func TestSmallFilesCutWithBackups(t *testing.T) {
	for name, h := range smallHosts(t) {
		t.Run(name, func(t *testing.T) {
			h.t = t
			source := filepath.Join(t.TempDir(), "source")
			older := smallTree(t, source, 100, 10)
			options := transfer.SyncOptions{BackupDir: ".old"}
			options.Preserve, options.Retries = true, 20
			options.Backoff = func(int) time.Duration { return time.Millisecond }
			_, err := transfer.Sync(t.Context(), transfer.Remote(h.connect(0), "/copy"),
				transfer.Local(source), options)
			mustDo(t, err)
			want := map[string][]byte{}
			for name, data := range older {
				want[name] = bytes.Repeat([]byte("newer"), 100+len(data))
				want[path.Join(".old", name)] = data
				mustDo(t, os.WriteFile(filepath.Join(source, name), want[name], 0o640))
			}

			var cuts atomic.Int64
			host := h.connectDeaf()
			host.Redial = func(context.Context) (pool.Host, error) {
				<-h.ended // otherwise it could still create a temporary file that is removed now
				if cuts.Add(1) < 8 {
					return h.connectDeaf(), nil
				}
				return h.connect(0), nil
			}
			r, err := transfer.Sync(t.Context(), transfer.Remote(host, "/copy"),
				transfer.Local(source), options)
			if err != nil || r.Files != 100 || cuts.Load() < 2 {
				t.Fatalf("%d files, %v, after %d cuts", r.Files, err, cuts.Load())
			}
			names := h.everything("/copy")
			if len(names) != len(want) {
				t.Errorf("there are %d files, want %d: %q", len(names), len(want), names)
			}
			dir := h.connect(0).Client.DirFS("/copy")
			for name, data := range want {
				if have, err := fs.ReadFile(dir, name); err != nil || !bytes.Equal(have, data) {
					t.Errorf("%s has %d bytes, want %d: %v", name, len(have), len(data), err)
				}
			}
		})
	}
}
