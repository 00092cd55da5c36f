package server_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// TestListsAtOnce: a program that lists directories within directories holds no more of them open
// than its user may, and gives them back.
func TestListsAtOnce(t *testing.T) {
	view, err := server.NewView(memfs.New(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		err := view.Mkdir(t.Context(), strings.Repeat("/d", i+1), wire.Attrs{})
		if err != nil {
			t.Fatal(err)
		}
	}
	const most = 5
	view = view.Limited(server.NewOpenFiles(most))
	deepest, refused := 0, 0
	var list func(path string, depth int)
	list = func(path string, depth int) {
		for _, err := range view.List(t.Context(), path) {
			if err != nil {
				refused++
				return
			}
			deepest = max(deepest, depth)
			list(path+"/d", depth+1)
		}
	}
	for range 2 {
		list("/", 1)
	}
	if deepest != most || refused != 2 {
		t.Errorf("%d were open, and %d refused", deepest, refused)
	}
}

// TestLimitOfManySessions: a client learns how many files it may have open, also if that is what
// all sessions of its user share.
func TestLimitOfManySessions(t *testing.T) {
	for _, most := range []int{5, 5000} {
		c := start(t, memfs.New(0), &server.Options{OpenFiles: server.NewOpenFiles(most)})
		var limits wire.LimitsReply
		if err := limits.Parse(c.do(wire.Limits{}).body); err != nil {
			t.Fatal(err)
		}
		want(t, limits.MaxOpenHandles, uint64(min(most, 1024)))
	}
}

// TestManySessions has a thousand clients come, list and leave. The synctest bubble makes sure that
// no goroutine is left.
func TestManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend, pool := memfs.New(0), &server.Pool{}
		c := start(t, backend, nil)
		for i := range 20 {
			c.put(fmt.Sprintf("/file%d", i), "x")
		}
		var clients sync.WaitGroup
		for range 1000 {
			clients.Go(func() {
				ours, theirs := net.Pipe()
				done := make(chan error)
				go func() {
					done <- server.Serve(t.Context(), theirs, backend,
						&server.Options{Pool: pool})
				}()
				c := &raw{t: t, conn: ours}
				c.send(wire.Init{Version: 3}.Append(nil))
				c.receive()
				if names := c.list("/"); len(names) != 20 {
					t.Errorf("%d names", len(names))
				}
				ours.Close()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
		clients.Wait()
		if out := pool.Out(); out != 0 {
			t.Errorf("%d bytes are out", out)
		}
	})
}

// TestBusySessionsAreBounded has a hundred clients that each request as much as they can and read
// nothing.
func TestBusySessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 100
		backend, pool := memfs.New(0), &server.Pool{}
		c := start(t, backend, nil)
		h := c.open("/f", create)
		c.ok(wire.Write{Handle: h, Data: make([]byte, wire.MaxData)})
		before := testenv.MemoryInUse()
		for range sessions {
			c := start(t, backend, &server.Options{Pool: pool})
			h := c.open("/f", wire.OpenRead)
			for range 100 {
				c.ask(wire.Read{Handle: h, Length: wire.MaxData})
			}
		}
		synctest.Wait()
		if each := pool.Out() / sessions; each < 1<<20 || each > 3<<20 {
			t.Errorf("a busy session has %d bytes of buffers", each)
		}
		if each := (testenv.MemoryInUse() - before) / sessions; each > 4<<20 {
			t.Errorf("a busy session takes %d bytes", each)
		}
		runtime.KeepAlive(backend)
	})
}
