package transfer_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// striped runs a copy over a link so long that several connections are used.
func striped(t *testing.T, script sftptest.Script, do func(b *bench)) {
	t.Helper()
	const trip = 400 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		h := &farHost{server: sftptest.NewServer(t, script),
			link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2, Window: 2 << 20}}
		first, further, end := h.open(t, pool.Config{Connections: 3, Streams: 1})
		defer end()
		do(&bench{t: t, server: h.server, dir: t.TempDir(),
			host: pool.Host{Client: first, Name: "far", Pool: further}})
	})
}

// TestReplacedSourceIsNotMixedIn: if another file of the same size replaces the source while
// further handles are being opened, the copy is one of the two, or fails.
func TestReplacedSourceIsNotMixedIn(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	old, fresh := bytes.Repeat([]byte("old "), size/4), bytes.Repeat([]byte("new "), size/4)
	for _, direction := range []way{download, relay} {
		for opens := 2; opens <= 3; opens++ { // replace it before this one
			t.Run(fmt.Sprintf("%v, open %d", direction, opens), func(t *testing.T) {
				var server *sftptest.Scripted
				var mu sync.Mutex
				seen := 0
				replace := func(r sftptest.Request) []sftptest.Action {
					mu.Lock()
					defer mu.Unlock()
					if r.Type != wire.TypeOpen || r.Path != "/source" {
						return nil
					}
					if seen++; seen == opens {
						server.Files.Remove("/source")
						server.Files.WriteFile("/source", fresh)
					}
					return nil
				}
				striped(t, sftptest.Script{Intercept: replace}, func(b *bench) {
					server = b.server
					server.Files.WriteFile("/source", old)
					time.Sleep(time.Hour) // on a fake clock
					var err error
					var got func() []byte
					if direction == download {
						_, err = b.job(direction, "/source", filepath.Join(b.dir, "target"))
						got = func() []byte { return b.read("target") }
					} else {
						to := newBench(b.t, sftptest.Script{}, sftptest.LinkConfig{})
						_, err = to.job(direction, "/source", "/target",
							func(j *copyJob) { j.From = b.host })
						got = func() []byte { return to.remote("/target") }
					}
					if seen < opens {
						b.t.Fatalf("it was opened %d times", seen)
					}
					if err == nil && !bytes.Equal(got(), old) && !bytes.Equal(got(), fresh) {
						b.t.Error("two files are mixed in one")
					}
				})
			})
		}
	}
}

// TestCloseOfAnyHandleCounts: if a server reports at CLOSE of a further handle that it could not
// store acknowledged data, the copy fails before it gets the target's name.
func TestCloseOfAnyHandleCounts(t *testing.T) {
	t.Parallel()
	const size = 48 << 20
	for _, placement := range []transfer.Placement{transfer.PlaceAuto, transfer.PlaceDirect} {
		for closes := 1; closes <= 3; closes++ {
			t.Run(fmt.Sprintf("in place %t, close %d fails", placement == transfer.PlaceDirect,
				closes), func(t *testing.T) {
				var seen atomic.Int64 // on all connections
				script := sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeClose && seen.Add(1) == int64(closes) {
						return []sftptest.Action{sftptest.Fail(wire.Failure, "quota exceeded")}
					}
					return nil
				}}
				striped(t, script, func(b *bench) {
					b.server.Files.WriteFile("/target", []byte("old"))
					result, err := b.job(upload, b.local("source", random(size)),
						"/target", func(j *copyJob) { j.Options.Placement = placement })
					if err == nil || !strings.Contains(err.Error(), "quota exceeded") {
						b.t.Fatalf("%+v, %v", result, err)
					}
					if result.Stripes < 2 {
						b.t.Fatalf("only %d further handles have taken part", result.Stripes)
					}
					if placement == transfer.PlaceAuto && string(b.remote("/target")) != "old" {
						b.t.Error("the target has changed")
					}
				})
			})
		}
	}
}
