package transfer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
)

// Connections for an expected file log in early if that is worthwhile, at most four at a time.
// Closing the pool in between lets them finish.
func TestExpect(t *testing.T) {
	for name, test := range map[string]struct {
		size int64
		trip time.Duration
		most int // PoolConfig.Connections
		want int // further connections
	}{
		"large, far":        {500e6, 100 * time.Millisecond, 0, 7},
		"large, near":       {500e6, time.Millisecond, 0, 0},
		"small, far":        {5e6, 140 * time.Millisecond, 0, 0},
		"middle, far":       {80e6, 100 * time.Millisecond, 0, 1},
		"as many as wanted": {500e6, 100 * time.Millisecond, 3, 2},
		"one will do":       {500e6, 100 * time.Millisecond, 1, 0},
		"of unknown size":   {-1, 100 * time.Millisecond, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
					link: sftptest.LinkConfig{ToServer: test.trip / 2, ToClient: test.trip / 2,
						Window: 2 << 20}}
				further := pool.New(pool.Config{First: farConn{farHost: h},
					Connect: h.connect, Connections: test.most})
				pools.OfPool(further).Expect(test.size, test.trip)
				synctest.Wait()
				h.mu.Lock()
				if h.logins != min(test.want, 4) {
					t.Errorf("%d log in at once", h.logins)
				}
				h.mu.Unlock()
				time.Sleep(12 * test.trip) // on the fake clock: a login takes eight
				synctest.Wait()
				began := time.Now()
				further.Close()
				if took := time.Since(began); took > 10*test.trip {
					t.Errorf("closing took %v", took)
				}
				if h.conns != test.want || h.aborted != 0 || h.most > 4 {
					t.Errorf("%d connections, %d ended halfway, %d at a time", h.conns, h.aborted,
						h.most)
				}
			})
		})
	}
}
