package transfer_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// bottleneck carries a number of bytes per second for all its users together.
type bottleneck struct {
	rate float64

	mu    sync.Mutex
	free  time.Time
	worse time.Time // until then it carries only a part
}

// partLeft is the part of a bottleneck's rate that is left while it is worse.
const partLeft = 0.25

func (b *bottleneck) worsen(d time.Duration) {
	b.mu.Lock()
	b.worse = time.Now().Add(d)
	b.mu.Unlock()
}

func (b *bottleneck) carry(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	if now := time.Now(); b.free.Before(now) {
		b.free = now
	}
	rate := b.rate
	if b.free.Before(b.worse) {
		rate *= partLeft
	}
	b.free = b.free.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	until := b.free
	b.mu.Unlock()
	time.Sleep(time.Until(until)) // simulates the link
}

// narrowed is a connection whose data goes through bottlenecks.
type narrowed struct {
	io.ReadWriteCloser
	down, up *bottleneck // nil for none
}

func (n *narrowed) Read(p []byte) (int, error) {
	got, err := n.ReadWriteCloser.Read(p[:min(len(p), 64<<10)])
	n.down.carry(got)
	return got, err
}

func (n *narrowed) Write(p []byte) (wrote int, err error) {
	for len(p) > 0 && err == nil {
		piece := min(len(p), 64<<10)
		n.up.carry(piece)
		piece, err = n.ReadWriteCloser.Write(p[:piece])
		wrote += piece
		p = p[piece:]
	}
	return wrote, err
}

// Connections that add nothing to the rate are closed, and those that add are kept, although none
// of them comes near its window.
func TestConnectionsAreTriedOut(t *testing.T) {
	t.Parallel()
	const trip = 100 * time.Millisecond
	for name, test := range map[string]struct {
		size   int
		shared float64 // bytes per second of all streams together, 0 for no limit
		each   int64   // and of each
		most   time.Duration
		check  func(made, closed int) bool
	}{
		// A link of 32 Mbit/s, which the first connection can fill.
		"a narrow link": {size: 64 << 20, shared: 4e6, most: 19 * time.Second,
			check: func(made, closed int) bool { return made > 0 && closed > made/2 }},
		// Packet loss slows each stream separately, as with TCP.
		"losses": {size: 64 << 20, each: 500e3, most: 17 * time.Second,
			check: func(made, closed int) bool { return made == 7 && closed == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
					link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2,
						Window: 2 << 20, RateBytesPerSec: test.each}}
				if test.shared > 0 {
					h.down = &bottleneck{rate: test.shared}
				}
				data := random(test.size)
				h.server.Files.WriteFile("/source", data)
				first, further, end := h.open(t, pool.Config{})
				defer end()
				target := filepath.Join(t.TempDir(), "target")
				began := time.Now()
				_, err := downloadFile(t.Context(),
					pool.Host{Client: first, Name: "far", Pool: further}, "/source", target,
					transfer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > test.most {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				h.mu.Lock()
				if !test.check(h.conns, h.closed) {
					t.Errorf("%d connections were made, %d were given back", h.conns, h.closed)
				}
				h.mu.Unlock()
				if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
					t.Errorf("what came differs: %v", err)
				}
			})
		})
	}
}
