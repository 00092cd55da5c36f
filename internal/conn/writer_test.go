package conn_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestWriterBatches queues 1000 STATs while the writer is inside a Write: they go out in few.
func TestWriterBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := sftptest.NewLink(sftptest.LinkConfig{Buffer: 100_000})
		counter := sftptest.NewCounter(client)
		c, p := conn.New(counter, counter, conn.Config{}), &peer{t, server}
		p.handshake()
		must(t, c.Handshake(context.Background()))
		q := conn.NewQueue()
		start(t, c, q, write(c, 0, 150_000))
		synctest.Wait()
		before := counter.Counts().Writes
		for range 1000 {
			start(t, c, q, stat(c))
		}
		for range 1001 {
			p.status(p.next().id, wire.EOF)
		}
		for range 1001 {
			c.Recycle(take(t, q))
		}
		if writes := counter.Counts().Writes - before; writes > 2 {
			t.Errorf("1000 STATs took %d Writes, want 2 at most", writes)
		}
		finish(t, c)
	})
}

// TestShortRequestsOvertake measures, at the peer, how many bytes of WRITEs come between the moment
// when a STAT is started and the STAT.
func TestShortRequestsOvertake(t *testing.T) {
	const rate = 1 << 20
	for _, size := range []int{1000, 32 << 10, wire.MaxData} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{RateBytesPerSec: rate, Buffer: 64 << 10},
				conn.Config{})
			q := conn.NewQueue()
			writes := 0
			for sum := 0; sum < 4<<20; sum += size {
				start(t, c, q, write(c, 0, size))
				writes++
			}
			var arrived time.Time
			go func() {
				for range writes + 1 {
					r, err := p.tryNext()
					if err != nil {
						return
					}
					if r.kind == wire.TypeStat {
						arrived = time.Now()
					}
				}
			}()
			time.Sleep(1500 * time.Millisecond)
			began := time.Now()
			start(t, c, q, stat(c))
			time.Sleep(time.Minute / 2)
			if waited := arrived.Sub(began).Seconds() * rate; arrived.IsZero() || waited > 1<<20 {
				t.Errorf("with WRITEs of %d bytes a STAT waited behind %.0f bytes, want 1 MiB at most", size, waited)
			}
			c.Close()
			finish(t, c)
		})
	}
}

// TestCloseWritesWhatIsQueued: a request that nobody waits for, such as the CLOSE of a file that
// was read, still reaches the server if the connection is closed at once.
func TestCloseWritesWhatIsQueued(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
			start(t, c, conn.NewQueue(), stat(c))
			within(t, 0, "Close", func() { c.Close() })
			if r, err := p.tryNext(); err != nil || r.kind != wire.TypeStat {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestOrderedStaysBehindWrites starts WRITEs, a CLOSE that is ordered, and a STAT that is not.
func TestOrderedStaysBehindWrites(t *testing.T) {
	for _, size := range []int{100, 10_000, 200_000} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{Buffer: 50_000}, conn.Config{})
			q := conn.NewQueue()
			shut := func() *conn.Call {
				call := c.NewCall()
				call.Request = wire.HandleRequest{Type: wire.TypeClose,
					Handle: []byte("h")}.Append(call.Scratch(), 0)
				call.Expect = wire.TypeStatus
				call.Ordered = true
				return call
			}
			for range 2 { // twice, the second time with requests of the first still in flight
				for range 5 {
					start(t, c, q, write(c, 0, size))
				}
				start(t, c, q, shut())
				start(t, c, q, write(c, 0, size))
				start(t, c, q, shut())
				start(t, c, q, stat(c))
			}
			var got []wire.Type
			for range 18 {
				r := p.next()
				p.status(r.id, wire.OK)
				if r.kind != wire.TypeStat {
					got = append(got, r.kind)
				}
			}
			w, x := wire.TypeWrite, wire.TypeClose
			if want := []wire.Type{w, w, w, w, w, x, w, x, w, w, w, w, w, x, w,
				x}; !slices.Equal(got, want) {
				t.Errorf("with WRITEs of %d bytes the order was %v", size, got)
			}
			for range 18 {
				c.Recycle(take(t, q))
			}
			finish(t, c)
		})
	}
}

// TestSentWakes checks that the owner of a WRITE of any size hears that its memory is free, and
// that it is.
func TestSentWakes(t *testing.T) {
	for _, size := range []int{100, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
			q, sent := conn.NewQueue(), conn.NewQueue()
			call := write(c, 0, size)
			call.Sent = sent
			start(t, c, q, call)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if _, err := sent.Next(ctx); err != nil {
				t.Errorf("nobody was woken by a WRITE of %d bytes", size)
			}
			if out, queued := c.Pool().Out(), c.Queued(); out != 0 || queued != 0 {
				t.Errorf("%d bytes are lent, %d are queued", out, queued)
			}
			p.status(p.next().id, wire.OK)
			c.Recycle(take(t, q))
			finish(t, c)
		})
	}
}

// TestRoundTrips compares what the connection counts with what the stream sees.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sftptest.NewScripted(sftptest.Script{})
		defer s.Close()
		counter := sftptest.NewCounter(s.Dial(sftptest.LinkConfig{ToServer: 10 * time.Millisecond,
			ToClient: 10 * time.Millisecond}))
		began := time.Now()
		c := conn.New(counter, counter, conn.Config{})
		must(t, c.Handshake(context.Background()))
		q := conn.NewQueue()
		for range 5 {
			for range 10 {
				start(t, c, q, stat(c))
			}
			for range 10 {
				c.Recycle(take(t, q))
			}
		}
		for range 3 {
			call := stat(c)
			must(t, c.Do(context.Background(), call))
			c.Recycle(call)
		}
		trips := int64(time.Since(began) / (20 * time.Millisecond))
		stats, counts := c.Stats(), counter.Counts()
		// INIT is not counted
		got := fmt.Sprint(stats.RoundTrips+1, stats.BytesRead, stats.BytesWritten, stats.Requests,
			stats.Replies)
		want := fmt.Sprint(trips, counts.BytesReceived, counts.BytesSent, 53, 53)
		if got != want || int64(counts.RoundTrips) != trips {
			t.Errorf("the connection counts %v, the stream %v and %d round trips", got, want,
				counts.RoundTrips)
		}
		finish(t, c)
	})
}
