package conn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// soon returns a context that ends after a minute, with a cause of its own.
func soon() (context.Context, error) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(time.Minute, func() { cancel(why) })
	return ctx, why
}

// untilCancelled runs f, which must return ctx's cause at the very moment when ctx ends.
func untilCancelled(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, why := soon()
	began := time.Now()
	err := f(ctx)
	if took := time.Since(began); !errors.Is(err, why) || took != time.Minute {
		t.Errorf("%s returned %v after %v, want %v after a minute", what, err, took, why)
	}
}

// TestCancelled cancels each wait against a peer that is silent, and then uses the connection.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{MaxInFlight: 1000, StallTimeout: -1})
		q := conn.NewQueue()
		untilCancelled(t, "Queue.Next", func(ctx context.Context) error {
			_,
				err := q.Next(ctx)
			return err
		})
		untilCancelled(t, "Do", func(ctx context.Context) error { return c.Do(ctx, stat(c)) })
		start(t, c, q, read(c, 0, 1000))
		untilCancelled(t, "Start", func(ctx context.Context) error {
			call := write(c, 0, 1000)
			call.Done = q
			return c.Start(ctx, call)
		})
		untilCancelled(t, "Do with the budget full",
			func(ctx context.Context) error { return c.Do(ctx, read(c, 0, 1)) })

		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Do(gone, stat(c)); err != context.Canceled {
			t.Errorf("Do with a context that is done: %v", err)
		}
		if sent := c.Stats().Requests; sent != 2 {
			t.Errorf("%d requests were sent, want 2: those that could be", sent)
		}

		given, asked := p.next(), p.next()
		must(t, c.Err())
		served := make(chan error)
		go func() { served <- c.Do(context.Background(), stat(c)) }()
		next := p.next()
		if next.id&0xffff == given.id&0xffff || next.id&0xffff == asked.id&0xffff {
			t.Errorf("id %#x uses the slot of %#x or %#x, whose replies are still to come", next.id,
				given.id, asked.id)
		}
		p.status(next.id, wire.NoSuchFile)
		must(t, <-served)

		p.status(given.id, wire.NoSuchFile) // the reply to the call that was given up
		p.status(asked.id, wire.EOF)
		c.Recycle(take(t, q))
		for range 2 { // both slots and all of the budget are free again
			start(t, c, q, read(c, 0, 500))
		}
		for range 2 {
			p.status(p.next().id, wire.EOF)
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

func TestOrphanIsTold(t *testing.T) {
	open := func(c *conn.Conn, told *[]string) *conn.Call {
		call := c.NewCall()
		call.Request = wire.Open{Path: "/f", Flags: wire.OpenRead}.Append(call.Scratch(), 0)
		call.Expect = wire.TypeHandle
		call.Orphan = func(call *conn.Call) {
			var h wire.Handle
			if call.Type == wire.TypeHandle && h.Parse(call.Body) == nil {
				*told = append(*told, string(h.Handle))
			} else {
				*told = append(*told, call.Status.Code.String())
			}
		}
		return call
	}
	for _, way := range []string{"Do", "Queue"} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
			var told []string
			if way == "Do" {
				for range 3 {
					untilCancelled(t, "Do", func(ctx context.Context) error {
						return c.Do(ctx,
							open(c, &told))
					})
				}
			} else {
				q := conn.NewQueue()
				for range 3 {
					start(t, c, q, open(c, &told))
				}
				p.send(wire.Handle{Handle: []byte("first")}.Append(nil, p.next().id))
				synctest.Wait()
				q.Abandon()
			}
			if way == "Do" {
				p.send(wire.Handle{Handle: []byte("first")}.Append(nil, p.next().id))
			}
			p.status(p.next().id, wire.PermissionDenied)
			synctest.Wait()
			if len(told) != 2 || told[0] != "first" || told[1] != wire.PermissionDenied.String() {
				t.Errorf("%s: the orphans were %q", way, told)
			}
			finish(t, c) // the third is never answered: there is nothing to undo
			if len(told) != 2 {
				t.Errorf("%s: the end told %q", way, told[2:])
			}
		})
	}
}

// TestDoRacesItsReply lets reply and cancellation come at the same moment: whichever wins, the call
// comes to one end.
func TestDoRacesItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{ToClient: time.Second}, conn.Config{})
		var replied, orphaned, cancelled int
		for range 200 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			done := make(chan error)
			call := stat(c)
			call.Orphan = func(*conn.Call) { orphaned++ }
			go func() { done <- c.Do(ctx, call) }()
			p.status(p.next().id, wire.NoSuchFile)
			if err := <-done; err == nil {
				replied++
				c.Recycle(call)
			} else {
				cancelled++
			}
			cancel()
			synctest.Wait()
		}
		if orphaned != cancelled || replied+cancelled != 200 {
			t.Errorf("%d replies, %d cancelled, %d orphans", replied, cancelled, orphaned)
		}
		finish(t, c)
	})
}

// stuck is a stream some of whose methods block until the test releases them.
type stuck struct {
	*sftptest.End
	write, close chan struct{} // nil: the method does not block
	writes       func()
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.writes != nil {
		s.writes()
	}
	if s.write != nil {
		<-s.write
		return len(p), nil
	}
	return s.End.Write(p)
}

func (s *stuck) Close() error {
	if s.close != nil {
		<-s.close
	}
	return s.End.Close()
}

// TestCloseEndsEveryWait closes a connection in which somebody waits at every place there is, over
// streams that block.
func TestCloseEndsEveryWait(t *testing.T) {
	forever := func(yes bool) chan struct{} {
		if yes {
			return make(chan struct{})
		}
		return nil
	}
	for _, test := range []struct {
		name         string
		write, close bool
	}{{"good stream", false, false}, {"stuck Write", true, false}, {"stuck Close", false, true},
		{"stuck both", true, true}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := sftptest.NewLink(sftptest.LinkConfig{Buffer: 100_000})
				stream := &stuck{End: client, write: forever(test.write),
					close: forever(test.close)}
				endings := make(chan error, 1)
				c := conn.New(client, stream, conn.Config{MaxInFlight: 400_000, StallTimeout: -1,
					Ended: func(err error) { endings <- err }})
				p := &peer{t, server}
				p.send(wire.InitReply{Version: 3}.Append(nil))
				must(t, c.Handshake(context.Background()))
				ctx := context.Background()
				q := conn.NewQueue()
				for range 2 { // the first of them is stuck in the stream
					start(t, c, q, write(c, 0, 200_000))
				}
				var waits sync.WaitGroup
				wait := func(what string, f func() error) {
					waits.Go(func() {
						if err := f(); err != conn.ErrClosed || !errors.Is(err, net.ErrClosed) {
							t.Errorf("%s: %v", what, err)
						}
					})
				}
				wait("Do", func() error { return c.Do(ctx, stat(c)) })
				wait("Do with the budget full", func() error { return c.Do(ctx, read(c, 0, 10)) })
				wait("Start", func() error {
					call := write(c, 0, 10)
					call.Done = q
					return c.Start(ctx, call)
				})
				wait("Queue.Next", func() error {
					for n := 0; ; {
						call, err := q.Next(ctx)
						if call != nil {
							err = call.Err
							c.Recycle(call)
							n++
						}
						if err != conn.ErrClosed || n == 2 {
							return err
						}
					}
				})
				synctest.Wait()
				most := time.Second / 10 // for what the stream does not take
				if test.write || test.close {
					most = time.Second
				}
				within(t, most, "Close", func() { must(t, c.Close()) })
				within(t, 0, "the callers", waits.Wait)
				if err := <-endings; err != conn.ErrClosed {
					t.Errorf("Ended was told %v", err)
				}
				if out := c.Pool().Out(); out != 0 {
					t.Errorf("%d bytes of the pool are still lent", out)
				}
				if _, err := c.TryStart(stat(c), true); err != conn.ErrClosed {
					t.Errorf("TryStart: %v", err)
				}
				within(t, most, "Close again", func() { must(t, c.Close()) })
				if stream.write != nil { // a goroutine inside a method of the stream ends with it
					stream.writes = func() { t.Error("another Write after the end") }
					close(stream.write)
				}
				if stream.close != nil {
					close(stream.close)
				}
			})
		})
	}
}

// TestCloseDuringHandshake closes while somebody waits for VERSION.
func TestCloseDuringHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := dial(t, sftptest.LinkConfig{}, conn.Config{})
		result := make(chan error)
		go func() { result <- c.Handshake(context.Background()) }()
		synctest.Wait()
		finish(t, c)
		if err := <-result; err != conn.ErrClosed {
			t.Errorf("Handshake: %v", err)
		}
	})
}

// TestBothSidesAreClosed has a writing side whose Close blocks until the reading side is closed.
func TestBothSidesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		out := &stuck{close: make(chan struct{})}
		out.End, _ = sftptest.NewLink(sftptest.LinkConfig{})
		c := conn.New(closeFunc{r, func() error { close(out.close); return r.Close() }}, out,
			conn.Config{})
		finish(t, c)
		w.Close()
	})
}

type closeFunc struct {
	io.Reader
	close func() error // makes the type one that cannot be compared
}

func (c closeFunc) Close() error { return c.close() }

func (closeFunc) Write(p []byte) (int, error) { return len(p), nil }

func TestStreamThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := io.Pipe()
		stream := closeFunc{r, r.Close}
		finish(t, conn.New(stream, stream, conn.Config{}))
	})
}

// TestRecycledWhileWritten ends a connection whose writer is inside a Write, and uses the calls
// again at once: the race detector watches what the writer still reads.
func TestRecycledWhileWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{Buffer: 100_000}, conn.Config{})
		q := conn.NewQueue()
		start(t, c, q, write(c, 0, 150_000))
		last := c.NewCall()
		last.Request = wire.HandleRequest{Type: wire.TypeClose,
			Handle: []byte("h")}.Append(last.Scratch(), 0)
		last.Expect = wire.TypeStatus
		last.Ordered = true
		start(t, c, q, last)
		synctest.Wait()
		go p.Cut(nil)
		go io.Copy(io.Discard, p)
		for range 2 {
			c.Recycle(take(t, q))
		}
		for range 10 {
			c.Recycle(stat(c))
		}
		finish(t, c)
	})
}
