package transfer_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestCappedConnections: over a short round trip a transfer finds out by trial whether more
// connections raise the rate. It keeps those that do and closes those that do not.
func TestCappedConnections(t *testing.T) {
	const rate = 4e6
	for _, test := range []struct {
		name   string
		size   int // MiB
		trip   time.Duration
		each   int64         // bytes per second of one connection, 0 for no limit
		shared float64       // and of all together
		losses time.Duration // how long all together carry a quarter of that once all have joined
		// whether this machine has processor time to spare after so long; nil: always
		spare func(time.Duration) bool
		most  time.Duration
		kept  int // further connections at the end
	}{
		{"each has a rate of its own", 32, 2 * time.Millisecond, rate, 0, 0, nil,
			3500 * time.Millisecond, 7},
		{"no delay at all", 32, 0, rate, 0, 0, nil, 3500 * time.Millisecond, 7},
		{"over a longer way", 32, 10 * time.Millisecond, rate, 0, 0, nil, 3500 * time.Millisecond,
			7},
		{"over a long way", 32, 30 * time.Millisecond, rate, 0, 0, nil, 4 * time.Second, 7},
		{"the link carries no five", 96, 2 * time.Millisecond, rate, 3.5 * rate, 0, nil,
			10 * time.Second, 3},
		{"they lose packets together", 96, 2 * time.Millisecond, rate, 8 * rate, 2 * time.Second,
			nil, 8 * time.Second, 7},
		{"the link is full", 32, 2 * time.Millisecond, 0, rate, 0, nil, 9 * time.Second, 0},
		{"this machine is busy", 32, 2 * time.Millisecond, rate, 0, 0,
			func(time.Duration) bool { return false }, 9 * time.Second, 0},
		{"this machine has a quiet moment", 128, 2 * time.Millisecond, 0, rate, 0,
			func(after time.Duration) bool {
				return after > 25*time.Second && after < 27*time.Second
			}, 36 * time.Second, 0},
	} {
		for _, direction := range []way{download, upload} {
			t.Run(fmt.Sprintf("%s, %v", test.name, direction), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
						link: sftptest.LinkConfig{ToServer: test.trip / 2, ToClient: test.trip / 2,
							Window: 2 << 20, RateBytesPerSec: test.each},
						losses: test.losses}
					if test.shared > 0 {
						h.down = &bottleneck{rate: test.shared}
						h.up = &bottleneck{rate: test.shared}
					}
					first, further, end := h.open(t, pool.Config{})
					defer end()
					b := &bench{t: t, server: h.server, dir: t.TempDir(),
						host: pool.Host{Client: first, Name: "near", Pool: further}}
					data := random(test.size << 20)
					source, target := b.local("source", data), "/target"
					if direction == download {
						h.server.Files.WriteFile("/source", data)
						source, target = "/source", filepath.Join(b.dir, "target")
					}
					time.Sleep(time.Hour) // on a fake clock: the source is no longer fresh
					began := time.Now()
					transfer.SetSpare(t, func() bool {
						return test.spare == nil || test.spare(time.Since(began))
					})
					if _, err := b.job(direction, source, target); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > test.most {
						t.Errorf("it took %v", took)
					}
					synctest.Wait()
					h.mu.Lock()
					defer h.mu.Unlock()
					if kept := h.conns - h.closed; kept != test.kept {
						t.Errorf("%d connections were made and %d closed; %d should be left",
							h.conns,
							h.closed, test.kept)
					}
					if test.spare != nil && h.conns > 0 || h.conns > 7 {
						t.Errorf("%d connections were made", h.conns)
					}
					if !bytes.Equal(b.arrived(direction), data) {
						t.Error("the target differs")
					}
				})
			})
		}
	}
}
