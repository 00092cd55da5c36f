package conn_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

var orderMu sync.Mutex

// starter starts a call on a goroutine and appends its tag to order once that has happened.
func starter(ctx context.Context, c *conn.Conn, q *conn.Queue, call *conn.Call, tag int,
	order *[]int) {
	call.Done, call.Tag = q, tag
	go func() {
		if c.Start(ctx, call) == nil {
			orderMu.Lock()
			*order = append(*order, tag)
			orderMu.Unlock()
		}
	}()
	synctest.Wait()
}

func TestBudgetIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{MaxInFlight: 1000})
		q := conn.NewQueue()
		var order []int
		expect := func(want ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(order, want) {
				t.Fatalf("have started: %v, want %v", order, want)
			}
		}
		start(t, c, q, read(c, 0, 600)) // 400 left
		start(t, c, q, read(c, 0, 700)) // -300: what is not exhausted may be overdrawn
		a, b := p.next(), p.next()
		ctx, leave := context.WithCancel(context.Background())
		starter(ctx, c, q, read(c, 0, 500), 1, &order)
		starter(context.Background(), c, q, read(c, 0, 600), 2, &order)
		starter(context.Background(), c, q, read(c, 0, 1), 3, &order)
		start(t, c, q, stat(c)) // wants no bytes and waits for none
		if ok, err := c.TryStart(read(c, 0, 1), false); ok || err != nil {
			t.Errorf("TryStart overtook those who wait: %v, %v", ok, err)
		}
		expect()
		p.status(a.id, wire.EOF) // 300: 1 goes and leaves -200
		expect(1)
		leave()                  // too late
		p.status(b.id, wire.EOF) // 500: 2 goes and leaves -100
		expect(1, 2)
		p.status(p.next().id, wire.EOF) // the STAT's
		expect(1, 2)
		p.status(p.next().id, wire.EOF) // 400: 3 goes
		expect(1, 2, 3)
		forced := read(c, 0, 5000)
		forced.Done = q
		if ok, err := c.TryStart(forced, true); !ok || err != nil { // -4601
			t.Errorf("TryStart by force: %v, %v", ok, err)
		}
		ctx, leave = context.WithCancel(context.Background())
		starter(ctx, c, q, read(c, 0, 1), 4, &order)
		starter(context.Background(), c, q, read(c, 0, 1), 5, &order)
		leave() // who leaves does not hold up those behind
		expect(1, 2, 3)
		if room := c.Room(5601); room != 500 {
			t.Errorf("Room for somebody with 5601 in flight: %d, want 500", room)
		}
		for range 3 { // 2, 3, the forced one
			p.status(p.next().id, wire.EOF)
		}
		expect(1, 2, 3, 5)
		p.status(p.next().id, wire.EOF)
		for range 8 {
			c.Recycle(take(t, q))
		}
		if room := c.Room(0); room != 500 {
			t.Errorf("Room on an idle connection: %d, want half of 1000", room)
		}
		finish(t, c)
	})
}

// TestBudgetBoundsWhatIsInFlight counts at the peer what has been asked for and not answered.
func TestBudgetBoundsWhatIsInFlight(t *testing.T) {
	const budget, size, calls = 1 << 20, 100_000, 100
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{ToServer: 1, ToClient: 1},
			conn.Config{MaxInFlight: budget})
		q := conn.NewQueue()
		for range calls {
			go func() {
				call := read(c, 0, size)
				call.Done = q
				if err := c.Start(context.Background(), call); err != nil {
					t.Error(err)
				}
			}()
		}
		most := 0
		for answered := 0; answered < calls; {
			synctest.Wait()
			inFlight := int(c.Stats().Requests - c.Stats().Replies)
			most = max(most, inFlight*size)
			if inFlight == 0 {
				r := p.next() // lets time pass
				p.send(wire.Data{Data: make([]byte, size)}.Append(nil, r.id))
			} else {
				p.send(wire.Data{Data: make([]byte, size)}.Append(nil, p.next().id))
			}
			answered++
		}
		if most > budget+size || most < budget {
			t.Errorf("at most %d bytes were in flight, want %d to %d", most, budget, budget+size)
		}
		for range calls {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

// TestThousandsOfCalls has more calls than there may be requests in flight. Each costs no
// goroutine; the one too many waits.
func TestThousandsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
		q := conn.NewQueue()
		before := testenv.Goroutines()
		const most = 1 << 15
		for range most {
			start(t, c, q, stat(c))
		}
		if after := testenv.Goroutines(); after > before {
			t.Errorf("%d goroutines became %d", before, after)
		}
		if ok, err := c.TryStart(stat(c), false); ok || err != nil {
			t.Errorf("a request beyond the bound, not forced: %v, %v", ok, err)
		}
		var order []int
		starter(context.Background(), c, q, stat(c), 1, &order)
		starter(context.Background(), c, q, read(c, 0, 1), 2, &order)
		starter(context.Background(), c, q, stat(c), 3, &order)
		seen := make(map[uint32]bool)
		ids := make([]uint32, most)
		for i := range ids {
			ids[i] = p.next().id
			if seen[ids[i]] {
				t.Fatalf("id %#x is used twice", ids[i])
			}
			seen[ids[i]] = true
		}
		p.status(ids[0], wire.EOF)
		synctest.Wait()
		if !slices.Equal(order, []int{1}) {
			t.Errorf("have started: %v, want 1", order)
		}
		for _, id := range ids[1:] {
			p.status(id, wire.EOF)
		}
		for range 3 {
			p.status(p.next().id, wire.EOF)
		}
		for range most + 3 {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}
