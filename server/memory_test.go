package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// TestSteadyStateAllocatesNothing: a READ or WRITE allocates nothing, which the speed depends on.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	h := c.open("/f", create|wire.OpenRead)
	c.ok(wire.Write{Handle: h, Data: make([]byte, wire.MaxData)})
	reply := make([]byte, wire.MaxPacket+wire.LengthSize)
	for name, m := range map[string]struct {
		request []byte
		reply   int
	}{
		"small read": {wire.Read{Handle: h, Length: 1000}.Append(nil, 1),
			wire.DataHeaderSize + 1000},
		"large read": {wire.Read{Handle: h, Length: wire.MaxData}.Append(nil, 1),
			wire.DataHeaderSize + wire.MaxData},
		"small write": {wire.Write{Handle: h, Data: make([]byte, 1000)}.Append(nil, 1), okSize},
		"write":       {wire.Write{Handle: h, Data: make([]byte, 32<<10)}.Append(nil, 1), okSize},
		"large write": {wire.Write{Handle: h, Data: make([]byte, wire.MaxData)}.Append(nil, 1),
			okSize},
		"fsync": {wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h}.Append(nil, 1), okSize},
	} {
		exchange := func() {
			if _, err := c.conn.Write(m.request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c.conn, reply[:m.reply]); err != nil {
				t.Fatal(err)
			}
		}
		exchange()
		if n := testenv.Allocations(1000, exchange); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// okSize is the length of a STATUS that reports success.
var okSize = len(wire.Status{Message: wire.OK.String()}.Append(nil, 0))

// TestIdleSessionIsSmall measures what sessions keep after moving a file.
func TestIdleSessionIsSmall(t *testing.T) { synctest.Test(t, testIdleSession) }

func testIdleSession(t *testing.T) {
	const sessions = 50
	pool := &server.Pool{}
	backend := memfs.New(0)
	before := testenv.MemoryInUse()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, sessions)
	for range sessions {
		ours, theirs := net.Pipe()
		go func() { done <- server.Serve(ctx, theirs, backend, &server.Options{Pool: pool}) }()
		c := &raw{t: t, conn: ours}
		c.send(wire.Init{Version: 3}.Append(nil))
		c.receive()
		h := c.open("/f", create|wire.OpenRead)
		c.ok(wire.Write{Handle: h, Data: make([]byte, wire.MaxData)})
		c.do(wire.Read{Handle: h, Length: wire.MaxData})
		c.close(h)
		c.list("/")
	}
	synctest.Wait()
	if out := pool.Out(); out != 0 {
		t.Errorf("idle sessions hold %d bytes of buffers", out)
	}
	if each := (testenv.MemoryInUse() - before - pool.Kept()) / sessions; each > 64<<10 {
		t.Errorf("an idle session takes %d bytes", each)
	}
	cancel()
	for range sessions {
		<-done
	}
}

func TestPoolShrinksWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &server.Pool{}
		c := start(t, memfs.New(0), &server.Options{Pool: pool})
		h := c.open("/f", create|wire.OpenRead)
		c.ok(wire.Write{Handle: h, Data: make([]byte, wire.MaxData)})
		if pool.Kept() == 0 {
			t.Error("nothing is kept for the next request")
		}
		time.Sleep(10 * time.Second) // on the fake clock
		synctest.Wait()
		if kept := pool.Kept(); kept > 0 {
			t.Errorf("%d bytes are kept for nothing", kept)
		}
	})
}

// TestWritesLeaveRoomForAReply: WRITEs that wait for a READ before them on their handle do not take
// the memory that the READ waits for, even if it becomes free piece by piece.
func TestWritesLeaveRoomForAReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory = 1 << 20
		files := newGated()
		c := start(t, files, &server.Options{MaxMemory: memory})
		data := append([]byte("slow"), make([]byte, 30<<10)...)
		const writes = memory / (30 << 10) // more than fit
		var requests []byte
		var release []func()
		for i := range writes {
			name := fmt.Sprint("/slow", i)
			requests = wire.Write{Handle: c.open(name, create), Data: data}.Append(requests, 1)
			release = append(release, files.hold("write "+name))
		}
		h := c.open("/f", create|wire.OpenRead)
		requests = wire.Read{Handle: h, Length: wire.MaxData}.Append(requests, 2)
		for range writes {
			requests = wire.Write{Handle: h, Data: data}.Append(requests, 3)
		}
		go c.conn.Write(requests)
		go func() {
			for _, release := range release {
				time.Sleep(time.Second) // on the fake clock: nothing else goes on
				release()
			}
		}()
		c.conn.SetReadDeadline(time.Now().Add(time.Minute))
		for replies := range 2*writes + 1 {
			if _, err := c.tryReceive(); err != nil {
				t.Fatalf("after %d of %d replies: %v", replies, 2*writes+1, err)
			}
		}
	})
}

// TestWriteAfterReadsThatTookTheRoom: replies to READs that have come together, and take all the
// memory, are sent before a WRITE waits for some of it.
func TestWriteAfterReadsThatTookTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, memfs.New(0), &server.Options{MaxMemory: 1 << 20})
		c.put("/f", "text")
		from, to := c.open("/f", wire.OpenRead), c.open("/g", create)
		var requests []byte
		const reads = 4 // more than fit, as each could return MaxData
		for range reads {
			requests = wire.Read{Handle: from, Length: wire.MaxData}.Append(requests, 1)
		}
		requests = wire.Write{Handle: to, Data: []byte("text")}.Append(requests, 2)
		go c.conn.Write(requests)
		c.conn.SetReadDeadline(time.Now().Add(time.Minute))
		for replies := range reads + 1 {
			if _, err := c.tryReceive(); err != nil {
				t.Fatalf("after %d of %d replies: %v", replies, reads+1, err)
			}
		}
	})
}
