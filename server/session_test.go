package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// answers collects replies as they come.
type answers struct {
	c   *raw
	got chan packet
}

func (c *raw) answers() *answers {
	a := &answers{c: c, got: make(chan packet, 20_000)}
	go func() {
		for {
			p, err := c.tryReceive()
			if err != nil {
				close(a.got)
				return
			}
			a.got <- p
		}
	}()
	return a
}

// now returns, by id, the replies that have come once nothing moves any more.
func (a *answers) now() map[uint32]packet {
	synctest.Wait()
	time.Sleep(time.Second) // on the fake clock, so that the watch over the reader has run
	synctest.Wait()
	replies := map[uint32]packet{}
	for len(a.got) > 0 {
		p := <-a.got
		replies[p.id] = p
	}
	return replies
}

// expect fails unless exactly these requests have been answered since the last call.
func (a *answers) expect(ids ...uint32) map[uint32]packet {
	a.c.t.Helper()
	replies := a.now()
	for _, id := range ids {
		if _, ok := replies[id]; !ok {
			a.c.t.Errorf("request %d has not been answered", id)
		}
	}
	if len(replies) != len(ids) {
		a.c.t.Errorf("%d requests have been answered, want %d", len(replies), len(ids))
	}
	return replies
}

// bubble runs a test in a synctest bubble, with a client of backend.
func bubble(t *testing.T, backend server.FS, opts *server.Options,
	test func(t *testing.T, c *raw)) {
	synctest.Test(t, func(t *testing.T) { test(t, start(t, backend, opts)) })
}

func stat(path string) message { return wire.PathRequest{Type: wire.TypeStat, Path: path} }

func TestSlowRequestStallsNoOther(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.put("/f", "text")
		h := c.open("/f", wire.OpenRead)
		a := c.answers()
		release := g.hold("stat /slow")
		slow := c.ask(stat("/slow"))
		var others []uint32
		for range 20 {
			others = append(others, c.ask(stat("/f")), c.ask(wire.Read{Handle: h, Length: 4}))
		}
		a.expect(others...)
		release()
		a.expect(slow)
	})
}

func TestManySlowRequests(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.put("/f", strings.Repeat("x", 1000))
		h := c.open("/f", wire.OpenRead)
		a := c.answers()
		release := g.hold("read /f")
		var reads []uint32
		for range 100 {
			reads = append(reads, c.ask(wire.Read{Handle: h, Length: wire.MaxData}))
		}
		// All requests that may run are waiting, or have taken all the memory. A short request
		// overtakes them.
		a.expect(c.ask(stat("/f")))
		release()
		a.expect(reads...)
	})
}

func TestOrderOnOneHandle(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		h := c.open("/f", create|wire.OpenRead)
		other := c.open("/g", create|wire.OpenRead)
		c.ok(wire.Write{Handle: other, Data: []byte("other")})
		a := c.answers()
		release := g.hold("write /f")
		slow := c.ask(wire.Write{Handle: h, Offset: 0, Data: []byte("slow write")})
		apart := c.ask(wire.Write{Handle: h, Offset: 100, Data: []byte("apart")})
		a.expect(c.ask(wire.Read{Handle: other, Length: 5}))
		// the non-overlapping one has been written; its reply waits for its turn
		want(t, g.wrote.Load(), 3)
		over := c.ask(wire.Write{Handle: h, Offset: 5, Data: []byte("OVER")})
		read := c.ask(wire.Read{Handle: h, Offset: 0, Length: 10})
		fstat := c.ask(wire.HandleRequest{Type: wire.TypeFstat, Handle: h})
		closed := c.ask(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
		path := c.ask(stat("/f"))
		late := c.ask(wire.Read{Handle: h, Length: 1}) // after CLOSE
		want(t, a.expect(late)[late].status(t).Code, wire.Failure)
		release()
		got := a.expect(slow, apart, over, read, fstat, closed, path)
		want(t, string(got[read].data(t)), "slow OVERe")
		want(t, got[fstat].attrs(t).Size, uint64(105))
		want(t, got[path].attrs(t).Size, uint64(105))
	})
}

func TestOrderOnPaths(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		a := c.answers()
		release := g.hold("mkdir /a")
		mkdir := c.ask(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/a"})
		elsewhere := c.ask(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/ab"})
		want(t, a.expect(elsewhere)[elsewhere].status(t).Code, wire.OK)
		below := c.ask(wire.Open{Path: "/a/f", Flags: create})
		above := c.ask(wire.PathRequest{Type: wire.TypeOpendir, Path: "/"})
		rename := c.ask(wire.Rename{OldPath: "/a", NewPath: "/b"})
		found := c.ask(stat("/b/f"))
		a.expect()
		release()
		got := a.expect(mkdir, below, above, rename, found)
		want(t, got[rename].status(t).Code, wire.OK)
		want(t, got[found].attrs(t).Size, uint64(0))
	})
}

func TestWriteFollowsChangeOfPath(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		h := c.open("/f", create)
		a := c.answers()
		release := g.hold("open /f")
		again := c.ask(wire.Open{Path: "/f", Flags: create})
		write := c.ask(wire.Write{Handle: h, Data: []byte("kept")})
		a.expect()
		release()
		a.expect(again, write)
		size := c.ask(stat("/f"))
		want(t, a.expect(size)[size].attrs(t).Size, uint64(4))
	})
}

func TestClientThatReadsNoReplies(t *testing.T) {
	pool := &server.Pool{}
	opts := &server.Options{Pool: pool}
	bubble(t, memfs.New(0), opts, func(t *testing.T, c *raw) {
		data := bytes.Repeat([]byte("abcdefgh"), wire.MaxData/8)
		h := c.open("/f", create|wire.OpenRead)
		c.ok(wire.Write{Handle: h, Data: data})
		const reads = 3000
		for range reads {
			// must not hang, although the pipe buffers nothing
			c.ask(wire.Read{Handle: h, Length: wire.MaxData})
		}
		synctest.Wait()
		if out := pool.Out(); out > 3<<20 {
			t.Errorf("%d bytes are out for a client that takes nothing", out)
		}
		for range reads {
			if p := c.receive(); !bytes.Equal(p.data(t), data) {
				t.Fatal("a reply is wrong")
			}
		}
		c.close(h)
	})
}

func TestFloodStopsReading(t *testing.T) {
	pool := &server.Pool{}
	opts := &server.Options{Pool: pool}
	for name, flood := range map[string]func(c *raw, h []byte) message{
		"reads": func(_ *raw, h []byte) message { return wire.Read{Handle: h, Length: 1} },
		"stats": func(*raw, []byte) message { return stat("/f") },
		"paths": func(*raw, []byte) message {
			return wire.PathRequest{Type: wire.TypeRealpath,
				Path: "/f"}
		},
		"nonsense": func(*raw, []byte) message { return wire.HandleRequest{Type: 99} },
		"writes": func(_ *raw, h []byte) message {
			return wire.Write{Handle: h,
				Data: make([]byte, 100_000)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, memfs.New(0), opts, func(t *testing.T, c *raw) {
				c.put("/f", "x")
				h := c.open("/f", wire.OpenRead|wire.OpenWrite)
				sent := make(chan int)
				go func() {
					b, n := flood(c, h).Append(nil, 1), 0
					for ; n < 1_000_000; n++ {
						if _, err := c.conn.Write(b); err != nil {
							break
						}
					}
					sent <- n
				}()
				synctest.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				if out := pool.Out(); out > 4<<20 {
					t.Errorf("%d bytes are out", out)
				}
				c.over()
				if n := <-sent; n == 1_000_000 {
					t.Error("the server took everything")
				}
				synctest.Wait()
				if out := pool.Out(); out != 0 {
					t.Errorf("%d bytes are out after the end", out)
				}
			})
		})
	}
}

// TestHeldRepliesAreBounded: replies that wait for an earlier one on their handle count as replies
// that the client has not read.
func TestHeldRepliesAreBounded(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.put("/f", "text")
		h := c.open("/f", wire.OpenRead)
		a := c.answers()
		release := g.hold("read /f")
		slow := c.ask(wire.Read{Handle: h, Length: 4})
		const most = 12_000 // more than there may be of replies held and requests pending together
		asked := make(chan []uint32)
		go func() {
			var ids []uint32
			for range most {
				ids = append(ids, c.ask(wire.HandleRequest{Type: wire.TypeFstat, Handle: h}))
			}
			asked <- ids
		}()
		a.expect() // and the reader has been replaced
		select {
		case <-asked:
			t.Errorf("%d replies were held for a request that takes long", most)
			return
		default:
		}
		release()
		a.expect(append(<-asked, slow)...)
	})
}

func TestContextEndsSession(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.open("/f", create)
		release := g.hold("stat /slow")
		c.ask(stat("/slow"))
		for range 10 {
			c.ask(stat("/f")) // nobody reads the replies
		}
		c.cancel()
		synctest.Wait()
		select {
		case err := <-c.done:
			t.Errorf("Serve returned %v while a method of the backend ran", err)
		default:
		}
		release()
		err := <-c.done
		c.done <- err
		if err != context.Canceled {
			t.Errorf("Serve returned %v", err)
		}
		if n := g.open.Load(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
	})
}

// stuck is a stream whose Write, after the first, waits until it is released. Close changes nothing
// about that, as with standard output.
type stuck struct {
	net.Conn
	begun   bool
	release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.begun {
		<-s.release
		return 0, io.ErrClosedPipe
	}
	s.begun = true
	return len(p), nil
}

// TestWriteThatNothingInterrupts: a session ends although its stream does not take the replies.
func TestWriteThatNothingInterrupts(t *testing.T) {
	for _, requests := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			stream := &stuck{Conn: theirs, release: make(chan struct{})}
			defer close(stream.release)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- server.Serve(ctx, stream, memfs.New(0), nil) }()
			c := &raw{t: t, conn: ours}
			c.send(wire.Init{Version: wire.Version}.Append(nil))
			for range requests {
				c.ask(stat("/"))
				time.Sleep(time.Second) // on the fake clock, so that the reader is replaced
			}
			cancel()
			select {
			case err := <-done:
				want(t, err, context.Canceled)
			case <-time.After(time.Minute):
				t.Errorf("the session does not end after %d requests", requests)
			}
		})
	}
}

func TestEndInOrder(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.open("/f", create)
		c.open("/g", create)
		if err := c.over(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		if n := g.open.Load(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
	})
}

// halfClosed is a stream whose client has stopped sending but still reads.
type halfClosed struct {
	io.Reader
	net.Conn
}

func (h halfClosed) Read(p []byte) (int, error) { return h.Reader.Read(p) }

func TestAllIsAnsweredBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := wire.Init{Version: 3}.Append(nil)
		const count = 2000
		for id := range uint32(count) {
			requests = wire.PathRequest{Type: wire.TypeRealpath, Path: "/x"}.Append(requests, id)
		}
		ours, theirs := net.Pipe()
		done := make(chan error)
		go func() {
			done <- server.Serve(t.Context(), halfClosed{bytes.NewReader(requests), theirs},
				memfs.New(0), nil)
		}()
		c := &raw{t: t, conn: ours}
		c.receive()
		for range count {
			c.receive().names(t)
		}
		if _, err := c.tryReceive(); err != errEnded {
			t.Errorf("more than was asked: %v", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestFailedWritesStayFailed(t *testing.T) {
	bubble(t, memfs.New(1<<20), nil, func(t *testing.T, c *raw) {
		h := c.open("/f", create)
		data := make([]byte, 200<<10)
		for offset := uint64(0); ; offset += uint64(len(data)) {
			s := c.do(wire.Write{Handle: h, Offset: offset, Data: data}).status(t)
			if s.Code == wire.OK {
				continue
			}
			want(t, s, wire.Status{Code: wire.Failure, Message: "no space left on device"})
			break
		}
		want(t, c.status(wire.Write{Handle: h, Offset: 0, Data: []byte("fits")}), wire.Failure)
		want(t, c.status(wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h}), wire.Failure)
		want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h}), wire.Failure)
		c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"})
		c.put("/f", "there is room again")
	})
}

func TestHandleLimit(t *testing.T) {
	g := newGated()
	bubble(t, g, &server.Options{MaxHandles: 3}, func(t *testing.T, c *raw) {
		h := c.open("/f", create)
		c.open("/f", create)
		c.do(wire.PathRequest{Type: wire.TypeOpendir, Path: "/"}).handle(t)
		for range 1000 {
			want(t, c.status(wire.Open{Path: "/f", Flags: wire.OpenRead}), wire.Failure)
			want(t, c.status(wire.PathRequest{Type: wire.TypeOpendir, Path: "/"}), wire.Failure)
		}
		c.ok(wire.Write{Handle: h, Data: []byte("kept")})
		want(t, c.status(wire.Open{Path: "/f", Flags: create}), wire.Failure)
		want(t, c.status(wire.Open{Path: "/new", Flags: create}), wire.Failure)
		want(t, c.stat("/f").Size, uint64(4))
		want(t, c.status(stat("/new")), wire.NoSuchFile)
		want(t, g.open.Load(), 2)
		c.close(h)
		c.open("/f", create)
	})
}

// TestSlowReplyIsSent: the reader is held up by a request when the next has already arrived. A new
// reader answers that one, and the first reply is sent when it is done, although nothing more
// comes.
func TestSlowReplyIsSent(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.put("/f", "text")
		a := c.answers()
		release := g.hold("stat /slow")
		c.send(stat("/f").Append(stat("/slow").Append(nil, 1001), 1002))
		a.expect(1002)
		release()
		a.expect(1001)
	})
}

// TestReplyBeforeSlowRequestIsSent: the reader answers a request, and is held up by the next, which
// has already arrived. The client gets the answer, and need send nothing more for that.
func TestReplyBeforeSlowRequestIsSent(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.put("/f", "text")
		a := c.answers()
		release := g.hold("stat /slow")
		c.send(stat("/slow").Append(stat("/f").Append(nil, 1001), 1002))
		a.expect(1001)
		release()
		a.expect(1002)
	})
}

// TestRepliesOnOneHandleKeepTheirOrder: pscp takes the answer to a later READ for the end of the
// file.
func TestRepliesOnOneHandleKeepTheirOrder(t *testing.T) {
	g := newGated()
	bubble(t, g, nil, func(t *testing.T, c *raw) {
		c.put("/f", "0123456789")
		h, other := c.open("/f", wire.OpenRead), c.open("/f", wire.OpenRead)
		a := c.answers()
		release := g.hold("read 0 /f")
		for offset := range uint64(5) {
			c.ask(wire.Read{Handle: h, Offset: offset, Length: 1})
		}
		a.expect(c.ask(wire.Read{Handle: other, Offset: 1, Length: 1}))
		want(t, g.read.Load(), 6) // all have been read
		release()
		synctest.Wait()
		for offset := range 5 {
			want(t, string((<-a.got).data(t)), string(rune('0'+offset)))
		}
	})
}

// TestExpensiveRequestsWaitForTheirTurn, and hold up no others.
func TestExpensiveRequestsWaitForTheirTurn(t *testing.T) {
	var work server.Work
	bubble(t, memfs.New(0), &server.Options{Work: &work}, func(t *testing.T, c *raw) {
		c.put("/f", "text")
		h := c.open("/f", wire.OpenRead)
		a := c.answers()
		release := work.Occupy(t.Context(), 0)
		hash := c.ask(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "md5"})
		long := c.ask(stat(strings.Repeat("/.", 1000) + "/f"))
		both := c.ask(hashOfLongPath)
		a.expect(c.ask(stat("/f")))
		release()
		a.expect(hash, long, both)
	})
}

// TestLongPathsInFoldersTakeTurns: finding the folder of a long path is expensive whatever is in it.
func TestLongPathsInFoldersTakeTurns(t *testing.T) {
	tree, err := server.NewFolders(server.Folder{Path: "/", FS: alike{memfs.New(0)}})
	if err != nil {
		t.Fatal(err)
	}
	var work server.Work
	bubble(t, tree, &server.Options{Work: &work}, func(t *testing.T, c *raw) {
		a := c.answers()
		release := work.Occupy(t.Context(), 0)
		long := c.ask(stat(strings.Repeat("/x", 1000)))
		a.expect(c.ask(stat("/f")))
		release()
		a.expect(long)
	})
}

// hashOfLongPath is expensive in two ways.
var hashOfLongPath = wire.CheckFile{Name: wire.ExtCheckFileName,
	Target: []byte(strings.Repeat("/.", 1000) + "/f"), Algorithms: "md5"}

// TestHashOfLongPath: a request that is expensive in two ways never waits for a second turn while
// it has one, which might not come.
func TestHashOfLongPath(t *testing.T) {
	var work server.Work
	bubble(t, memfs.New(0), &server.Options{Work: &work}, func(t *testing.T, c *raw) {
		c.put("/f", "text")
		defer work.Occupy(t.Context(), 1)()
		c.answers().expect(c.ask(hashOfLongPath))
	})
}
