package conn_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

const patience = 40 * time.Second // the stall timeout of these tests

// stalls checks that the connection ends in [patience, patience*9/8] from began on.
func stalls(t *testing.T, c *conn.Conn, began time.Time, data bool) {
	t.Helper()
	err := ended[*conn.StallError](t, c)
	if took := time.Since(began); took < patience || took > patience+patience/8 {
		t.Errorf("it took %v to notice, want %v to %v", took, patience, patience+patience/8)
	}
	if err.Data != data || !err.Timeout() || err.After != patience {
		t.Errorf("the error is %+v", err)
	}
}

func TestOverdueData(t *testing.T) {
	for _, before := range []time.Duration{0, 1, 3 * time.Second, 5 * time.Second,
		17*time.Second + 7, patience, 10 * patience} {
		for _, test := range []struct {
			name string
			call func(*conn.Conn) *conn.Call
		}{
			{"READ", func(c *conn.Conn) *conn.Call { return read(c, 0, 100) }},
			{"WRITE", func(c *conn.Conn) *conn.Call { return write(c, 0, 100) }},
			{"large WRITE", func(c *conn.Conn) *conn.Call { return write(c, 0, 200_000) }},
		} {
			synctest.Test(t, func(t *testing.T) { // nothing comes at all
				// the transport lives, but the data does not
				answer := func(context.Context) error { return nil }
				c, p := connect(t, sftptest.LinkConfig{},
					conn.Config{StallTimeout: patience, Keepalive: answer})
				q := conn.NewQueue()
				start(t, c, q, rename(c)) // makes the clock run
				time.Sleep(before)
				must(t, c.Err())
				start(t, c, q, test.call(c))
				stalls(t, c, time.Now(), true)
				for range 2 {
					c.Recycle(take(t, q))
				}
				p.Close()
				finish(t, c)
			})
			synctest.Test(t, func(t *testing.T) { // some comes, and then no more
				c, p := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: patience})
				q := conn.NewQueue()
				start(t, c, q, test.call(c))
				start(t, c, q, test.call(c))
				p.next()
				r := p.next()
				time.Sleep(min(before, patience-1))
				p.status(r.id, wire.Failure)
				stalls(t, c, time.Now(), true)
				for range 2 {
					c.Recycle(take(t, q))
				}
				finish(t, c)
			})
		}
	}
}

// TestOverdue: what is overdue shows before the connection ends for it, with the time when it will.
func TestOverdue(t *testing.T) {
	for name, test := range map[string]struct {
		call  func(*conn.Conn) *conn.Call
		lives bool          // the transport answers
		after time.Duration // until it shows; 0 for never
	}{
		"READ":         {func(c *conn.Conn) *conn.Call { return read(c, 0, 100) }, true, 1},
		"STAT":         {stat, true, 0},
		"STAT, silent": {stat, false, patience/4 + patience/8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keepalive := func(ctx context.Context) error {
					if !test.lives {
						<-ctx.Done()
					}
					return ctx.Err()
				}
				c, p := connect(t, sftptest.LinkConfig{},
					conn.Config{StallTimeout: patience, Keepalive: keepalive})
				if since, end := c.Overdue(); !since.IsZero() || !end.IsZero() {
					t.Errorf("nothing is owed, and overdue since %v", since)
				}
				q := conn.NewQueue()
				began := time.Now()
				start(t, c, q, test.call(c))
				var shown, promised time.Time
				for time.Since(began) < 2*patience && c.Err() == nil {
					time.Sleep(time.Second / 2)
					if since, end := c.Overdue(); !since.IsZero() {
						if promised = end; shown.IsZero() {
							shown = time.Now()
						}
						if !since.Equal(began) {
							t.Fatalf("overdue since %v, want %v", since, began)
						}
					}
				}
				switch {
				case test.after == 0:
					must(t, c.Err())
					if !shown.IsZero() {
						t.Errorf("it was overdue after %v", shown.Sub(began))
					}
					p.Close()
				case shown.Sub(began) > test.after+patience/stallChecks:
					t.Errorf("it was overdue after %v only", shown.Sub(began))
				case time.Since(promised).Abs() > patience/stallChecks:
					t.Errorf("it ended %v after the time that was named", time.Since(promised))
				}
				c.Recycle(take(t, q))
				finish(t, c)
			})
		})
	}
}

// stallChecks is how many times the connection checks within the stall timeout.
const stallChecks = 8

// TestCrumbsAreNoStall has the peer say everything a byte at a time, with half the stall timeout
// between them.
func TestCrumbsAreNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: patience})
		q := conn.NewQueue()
		for _, call := range []*conn.Call{read(c, 0, 100), write(c, 0, 100), read(c, 0, 100)} {
			start(t, c, q, call)
			id := p.next().id
			reply := wire.Data{Data: content(30, 'x')}.Append(nil, id)
			if call.Expect == wire.TypeStatus {
				reply = wire.Status{Message: "thank you"}.Append(nil, id)
			}
			for _, b := range reply {
				time.Sleep(patience / 2)
				p.send([]byte{b})
			}
			call := take(t, q)
			must(t, call.Err)
			c.Recycle(call)
		}
		finish(t, c)
	})
}

// TestSlowWritesAreNoStall has the peer read slowly through a small buffer, so that one burst takes
// much longer than the stall timeout.
func TestSlowWritesAreNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{Buffer: 4000}, conn.Config{StallTimeout: patience})
		q := conn.NewQueue()
		const calls, size = 6, 60_000
		for range calls {
			start(t, c, q, write(c, 0, size))
		}
		piece := make([]byte, 2000)
		left := 0
		// all is read before anything is answered, at 2 kB/s: 30 s for a WRITE, 180 s in all
		for range calls {
			left += size + wire.WriteHeaderSize(1)
		}
		for left > 0 {
			time.Sleep(time.Second)
			n, err := p.Read(piece[:min(left, len(piece))])
			must(t, err)
			left -= n
		}
		// The last of it moved when it went into the buffer, two seconds before it was read.
		stalls(t, c, time.Now().Add(-2*time.Second), true)
		for range calls {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

// TestSlowWritesBeforeALookup: on a slow line the answer to a keepalive waits behind data that is
// still being sent. What is asked then has its whole time.
func TestSlowWritesBeforeALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{Buffer: 4000}, conn.Config{StallTimeout: patience,
			Keepalive: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		q := conn.NewQueue()
		const calls, size = 6, 60_000 // 30 s each
		for range calls {
			start(t, c, q, write(c, 0, size))
		}
		piece := make([]byte, 2000)
		for left := 3 * size; left > 0; {
			time.Sleep(time.Second)
			n, err := p.Read(piece[:min(left, len(piece))])
			must(t, err)
			left -= n
		}
		start(t, c, q, stat(c))
		time.Sleep(patience / 2)
		must(t, c.Err())
		p.Close()
		for range calls + 1 {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

// TestSlowUplink has a stream whose buffers fill within the first request, on a line that takes
// several stall timeouts for the rest of it.
func TestSlowUplink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, rate, calls, size = 5 * time.Second, 16 << 10, 4, 200_000
		c, p := connect(t, sftptest.LinkConfig{Buffer: 32 << 10, RateBytesPerSec: rate},
			conn.Config{StallTimeout: timeout})
		q := conn.NewQueue()
		for range calls {
			start(t, c, q, write(c, 0, size))
		}
		began := time.Now()
		for range calls {
			p.status(p.next().id, wire.OK)
			call := take(t, q)
			must(t, call.Err)
			c.Recycle(call)
		}
		if took := time.Since(began); took < calls*size/rate*time.Second {
			t.Errorf("the line was not slow: %v", took)
		}
		finish(t, c)
	})
}

func TestSlowRename(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(context.Context) error
		stalls bool
	}{
		{"nobody can be asked", nil, false},
		{"the transport answers", func(context.Context) error {
			time.Sleep(patience / 2)
			return nil
		}, false},
		{"the transport is silent", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, true},
		{"the transport is silent and does not listen",
			func(context.Context) error { time.Sleep(100 * patience); return errors.New("late") },
			true},
		{"the transport cannot be asked", func(context.Context) error {
			return errors.ErrUnsupported
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := connect(t, sftptest.LinkConfig{},
					conn.Config{StallTimeout: patience, Keepalive: test.answer})
				q := conn.NewQueue()
				start(t, c, q, rename(c))
				r := p.next()
				if test.stalls {
					stalls(t, c, time.Now(), false)
					c.Recycle(take(t, q))
					c.Close()
					time.Sleep(100 * patience)
					return
				}
				time.Sleep(20 * patience)
				must(t, c.Err())
				p.status(r.id, wire.OK)
				c.Recycle(take(t, q))
				time.Sleep(20 * patience) // idle
				must(t, c.Err())
				finish(t, c)
			})
		})
	}
}

type message interface {
	Append(b []byte, id uint32) []byte
}

// rename makes a call of RENAME.
func rename(c *conn.Conn) *conn.Call {
	return callOf(c, wire.TypeStatus, wire.Rename{OldPath: "/a", NewPath: "/b"})
}

func callOf(c *conn.Conn, expect wire.Type, m message) *conn.Call {
	call := c.NewCall()
	call.Request, call.Expect = m.Append(call.Scratch(), 0), expect
	return call
}

// alive answers keepalives.
func alive(context.Context) error { return nil }

// TestLookupWithoutAnswer: a server that lives may take any time for what opens or changes
// something, and many times the stall timeout for what only looks something up.
func TestLookupWithoutAnswer(t *testing.T) {
	path := func(kind wire.Type) wire.PathRequest { return wire.PathRequest{Type: kind, Path: "/f"} }
	handle := func(kind wire.Type) wire.HandleRequest {
		return wire.HandleRequest{Type: kind, Handle: []byte("h")}
	}
	extended := func(name string) message { return wire.ExtendedPath{Name: name, Path: "/f"} }
	beneath := func(kind wire.Type) wire.Beneath { return wire.Beneath{Request: kind} }
	long := strings.Repeat("x", 1000) // it does not fit into the call
	for _, test := range []struct {
		message message
		expect  wire.Type
		times   time.Duration // stall timeouts; 0 for any time
		request string
	}{
		{path(wire.TypeLstat), wire.TypeAttrs, 10, `LSTAT "/f"`},
		{path(wire.TypeStat), wire.TypeAttrs, 10, `STAT "/f"`},
		{wire.PathRequest{Type: wire.TypeStat, Path: long}, wire.TypeAttrs, 10, `STAT "` + long + `"`},
		{path(wire.TypeRealpath), wire.TypeName, 10, `REALPATH "/f"`},
		{path(wire.TypeReadlink), wire.TypeName, 10, `READLINK "/f"`},
		{extended(wire.ExtStatVFS), wire.TypeExtendedReply, 10, `EXTENDED "statvfs@openssh.com"`},
		{extended(wire.ExtExpandPath), wire.TypeName, 10, `EXTENDED "expand-path@openssh.com"`},
		{beneath(wire.TypeLstat), wire.TypeAttrs, 10, `EXTENDED "beneath@usftp"`},
		{handle(wire.TypeFstat), wire.TypeAttrs, 60, "FSTAT"},
		{handle(wire.TypeReaddir), wire.TypeName, 60, "READDIR"},
		{path(wire.TypeOpendir), wire.TypeHandle, 60, `OPENDIR "/f"`},
		{beneath(wire.TypeOpendir), wire.TypeHandle, 60, `EXTENDED "beneath@usftp"`},
		{wire.Open{Path: "/f"}, wire.TypeHandle, 0, ""},
		{handle(wire.TypeClose), wire.TypeStatus, 0, ""},
		{path(wire.TypeRemove), wire.TypeStatus, 0, ""},
		{path(wire.TypeRmdir), wire.TypeStatus, 0, ""},
		{wire.PathAttrs{Type: wire.TypeMkdir, Path: "/f"}, wire.TypeStatus, 0, ""},
		{wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f"}, wire.TypeStatus, 0, ""},
		{wire.Fsetstat{Handle: []byte("h")}, wire.TypeStatus, 0, ""},
		{wire.Rename{OldPath: "/f", NewPath: "/g"}, wire.TypeStatus, 0, ""},
		{beneath(wire.TypeRemove), wire.TypeStatus, 0, ""},
		{wire.Extended{Name: wire.ExtCheckFileName}, wire.TypeExtendedReply, 0, ""},
		{wire.Extended{Name: wire.ExtCopyData}, wire.TypeStatus, 0, ""},
		{wire.Extended{Name: "unknown@example.org"}, wire.TypeExtendedReply, 0, ""},
	} {
		for _, keepalive := range []func(context.Context) error{alive, nil} {
			synctest.Test(t, func(t *testing.T) {
				c, p := connect(t, sftptest.LinkConfig{},
					conn.Config{StallTimeout: patience, Keepalive: keepalive})
				q := conn.NewQueue()
				began := time.Now()
				start(t, c, q, callOf(c, test.expect, test.message))
				r := p.next()
				if test.times == 0 {
					time.Sleep(1000 * patience)
					if c.Err() != nil {
						t.Errorf("%v: %v", r.kind, c.Err())
					}
					p.status(r.id, wire.OK)
				} else {
					err := ended[*conn.StallError](t, c)
					took, limit := time.Since(began), test.times*patience
					if took < limit || took > limit+patience/4 || err.After != limit || err.Data ||
						err.Request != test.request || !strings.Contains(err.Error(), "to "+test.request) {
						t.Errorf("%v after %v: %v, %+v", r.kind, took, err, err)
					}
				}
				c.Recycle(take(t, q))
				finish(t, c)
			})
		}
	}
}

// lines is a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestLongWaitIsTold: the logger is told once of each request that takes long, whatever it is, and
// of none that waits behind another or that has moved data.
func TestLongWaitIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(lines, 10)
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: patience,
			Keepalive: alive, Logger: slog.New(slog.NewTextHandler(told, nil))})
		q := conn.NewQueue()
		closing := callOf(c, wire.TypeStatus,
			wire.HandleRequest{Type: wire.TypeClose, Handle: []byte("h")})
		for _, call := range []*conn.Call{rename(c), stat(c), closing} {
			start(t, c, q, call)
		}
		for _, want := range []string{`RENAME \"/a\"`, `STAT \"/file\"`, "CLOSE"} {
			time.Sleep(59 * time.Second)
			if len(told) > 0 {
				t.Errorf("told early: %s", <-told)
			}
			time.Sleep(2*time.Minute - 59*time.Second)
			if line := <-told; len(told) > 0 ||
				!strings.Contains(line, "still waiting for the reply to "+want+" (1m0s)") {
				t.Errorf("told %q, and %d more", line, len(told))
			}
			p.status(p.next().id, wire.NoSuchFile)
			c.Recycle(take(t, q))
		}
		start(t, c, q, read(c, 0, 100))
		id := p.next().id
		for _, b := range (wire.Data{Data: content(30, 'x')}).Append(nil, id) {
			time.Sleep(patience / 2)
			p.send([]byte{b})
		}
		c.Recycle(take(t, q))
		if len(told) > 0 {
			t.Errorf("told of data that moves: %s", <-told)
		}
		finish(t, c)
	})
}

// TestFreeMemoryIsNotTold: the memory of a request that was sent may hold another file's contents.
func TestFreeMemoryIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(lines, 10)
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: patience,
			Keepalive: alive, Logger: slog.New(slog.NewTextHandler(told, nil))})
		q := conn.NewQueue()
		put, block := c.NewCall(), c.Pool().Get(100)
		put.Payload, put.Expect = block, wire.TypeStatus
		put.Request = wire.Extended{Name: wire.ExtPutFiles}.Append(block.Bytes()[:0], 0)
		start(t, c, q, put)
		id := p.next().id
		other := c.Pool().Get(100)
		wire.Extended{Name: "other contents"}.Append(other.Bytes()[:0], 0)
		if line := <-told; other != block || !strings.Contains(line, "EXTENDED (1m0s)") {
			t.Errorf("told %q; the memory was used again: %v", line, other == block)
		}
		other.Release()
		p.status(id, wire.OK)
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

// TestListingWithoutAnswer: the error names the directory.
func TestListingWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: patience})
		q := conn.NewQueue()
		start(t, c, q, callOf(c, wire.TypeHandle, wire.PathRequest{Type: wire.TypeOpendir, Path: "/d"}))
		p.send(wire.Handle{Handle: []byte("h")}.Append(nil, p.next().id))
		opened := take(t, q)
		call := callOf(c, wire.TypeName,
			wire.HandleRequest{Type: wire.TypeReaddir, Handle: []byte("h")})
		call.Handle = opened.Handle
		call.Handle.Dir = "/d"
		start(t, c, q, call)
		if err := ended[*conn.StallError](t, c); err.Request != `READDIR "/d"` {
			t.Errorf("%+v", err)
		}
		c.Recycle(opened)
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

// givenUp waits until the connection has ended because of the STAT that has been the oldest request
// since then.
func givenUp(t *testing.T, c *conn.Conn, since time.Time) {
	t.Helper()
	err := ended[*conn.StallError](t, c)
	if took := time.Since(since); took < 10*patience || took > 41*patience/4 || err.Data ||
		err.Request != `STAT "/file"` {
		t.Errorf("%+v after %v", err, took)
	}
}

// TestLookupWaitsForItsTurn: a server that does one thing after the other has not come to the last
// of a thousand questions, or to one after a RENAME that takes an hour.
func TestLookupWaitsForItsTurn(t *testing.T) {
	const slow = 9 * patience
	for name, first := range map[string]func(*conn.Conn) *conn.Call{"STATs": stat, "RENAME": rename} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := connect(t, sftptest.LinkConfig{},
					conn.Config{StallTimeout: patience, Keepalive: alive})
				q := conn.NewQueue()
				start(t, c, q, first(c))
				for range 20 {
					start(t, c, q, stat(c))
				}
				if name == "RENAME" {
					time.Sleep(100 * patience)
				}
				for range 20 {
					time.Sleep(slow)
					must(t, c.Err())
					p.status(p.next().id, wire.NoSuchFile)
					c.Recycle(take(t, q))
				}
				givenUp(t, c, time.Now())
				c.Recycle(take(t, q))
				finish(t, c)
			})
		})
	}
}

// TestDataBehindALookup: a server that does one thing after the other sends no data while it looks
// something up, and all the data that is due soon after it.
func TestDataBehindALookup(t *testing.T) {
	for _, answered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{},
				conn.Config{StallTimeout: patience, Keepalive: alive})
			q := conn.NewQueue()
			began := time.Now()
			start(t, c, q, stat(c))
			start(t, c, q, read(c, 0, 100))
			if answered {
				id := p.next().id
				time.Sleep(9 * patience)
				must(t, c.Err())
				if since, _ := c.Overdue(); !since.IsZero() && time.Since(since) > patience/stallChecks {
					t.Errorf("overdue since %v", since)
				}
				p.status(id, wire.NoSuchFile)
				c.Recycle(take(t, q))
				p.next()
				stalls(t, c, time.Now(), true)
			} else {
				givenUp(t, c, began)
				c.Recycle(take(t, q))
			}
			c.Recycle(take(t, q))
			finish(t, c)
		})
	}
}

// TestSilenceBeforeALookup: a peer that shows no sign of life is overdue, and ends in time, also
// where a lookup excuses that no data comes.
func TestSilenceBeforeALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		c, _ := connect(t, sftptest.LinkConfig{},
			conn.Config{StallTimeout: patience, Keepalive: silent})
		q := conn.NewQueue()
		time.Sleep(time.Millisecond)
		start(t, c, q, stat(c))
		time.Sleep(time.Millisecond) // the checks' times and the silence's do not meet
		start(t, c, q, read(c, 0, 100))
		began := time.Now()
		for c.Err() == nil && time.Since(began) < 2*patience {
			time.Sleep(patience / 100)
			silence := time.Since(began)
			since, end := c.Overdue()
			if c.Err() == nil && (since.Sub(began).Abs() > time.Second ||
				end.Sub(began.Add(patience)).Abs() > time.Second) {
				t.Fatalf("after %v it is overdue since %v and ends at %v", silence,
					since.Sub(began), end.Sub(began))
			}
		}
		if took := time.Since(began); took > patience+time.Second {
			t.Errorf("it ended after %v", took)
		}
		for range 2 {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

// TestLookupBeforeAnOpen: programs ask for a file's attributes and open it in one go. What was
// asked second does not excuse the first.
func TestLookupBeforeAnOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{},
			conn.Config{StallTimeout: patience, Keepalive: alive})
		q := conn.NewQueue()
		began := time.Now()
		start(t, c, q, stat(c))
		start(t, c, q, callOf(c, wire.TypeHandle, wire.Open{Path: "/file"}))
		p.next()
		givenUp(t, c, began)
		for range 2 {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

// TestLookupThatNobodyWaitsFor has no answer, and harms no other call. Nor does it help a server
// that answers nothing after it.
func TestLookupThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{},
			conn.Config{StallTimeout: patience, Keepalive: alive})
		untilCancelled(t, "Do", func(ctx context.Context) error { return c.Do(ctx, stat(c)) })
		p.next()
		time.Sleep(100 * patience)
		must(t, c.Err())
		began, q := time.Now(), conn.NewQueue()
		start(t, c, q, stat(c))
		givenUp(t, c, began)
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

// TestLostLookup: one request is lost, and everything else is answered, more requests than there
// are ids.
func TestLostLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{},
			conn.Config{StallTimeout: patience, Keepalive: alive})
		q := conn.NewQueue()
		began := time.Now()
		start(t, c, q, stat(c))
		p.next()
		for i := 0; ; i++ {
			time.Sleep(10 * patience / (1 << 16) / 2)
			if c.Err() != nil || time.Since(began) > 20*patience {
				break
			}
			call := stat(c)
			if i%2 > 0 {
				call = rename(c)
			}
			start(t, c, q, call)
			p.status(p.next().id, wire.NoSuchFile)
			c.Recycle(take(t, q))
		}
		givenUp(t, c, began)
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

// TestRepliesStandForKeepalives has a transport whose keepalive fails while replies come.
func TestRepliesStandForKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		c, p := connect(t, sftptest.LinkConfig{},
			conn.Config{StallTimeout: patience, Keepalive: func(ctx context.Context) error {
				asked.Add(1)
				<-ctx.Done()
				return ctx.Err()
			}})
		q := conn.NewQueue()
		start(t, c, q, stat(c))
		slow := p.next()
		for range 10 {
			start(t, c, q, stat(c))
			// long enough to be asked for, not for the answer to be overdue
			time.Sleep(patience / 2)
			p.status(p.next().id, wire.OK)
			c.Recycle(take(t, q))
		}
		if must(t, c.Err()); asked.Load() == 0 {
			t.Error("no keepalive was sent")
		}
		p.status(slow.id, wire.OK)
		c.Recycle(take(t, q))
		time.Sleep(10 * patience)
		finish(t, c)
	})
}

// A keepalive that fails says nothing about the peer, even if something came while it waited.
func TestFailedKeepalive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: patience,
			Keepalive: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
		q := conn.NewQueue()
		start(t, c, q, stat(c))
		start(t, c, q, stat(c))
		first := p.next()
		p.next()
		time.Sleep(patience/4 + time.Second) // it is being asked
		p.status(first.id, wire.OK)
		c.Recycle(take(t, q))
		last := time.Now()
		ended[*conn.StallError](t, c)
		if took := time.Since(last); took < patience || took > patience*5/4 {
			t.Errorf("the connection ended %v after the last reply", took)
		}
		if heard := c.Heard().Sub(last); heard.Abs() > patience/8 {
			t.Errorf("the last sign of life is %v after the last reply", heard)
		}
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

func TestIdleNeverStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := true
		c, p := connect(t, sftptest.LinkConfig{},
			conn.Config{StallTimeout: patience, Keepalive: func(context.Context) error {
				if idle {
					t.Error("a keepalive on an idle connection")
				}
				return nil
			}})
		q := conn.NewQueue()
		for range 5 {
			time.Sleep(3 * patience)
			start(t, c, q, read(c, 0, 10))
			p.status(p.next().id, wire.EOF)
			c.Recycle(take(t, q))
		}
		time.Sleep(100 * patience)
		idle = false
		start(t, c, q, read(c, 0, 10)) // and what went before does not count
		stalls(t, c, time.Now(), true)
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

func TestStallTimeoutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, sftptest.LinkConfig{}, conn.Config{StallTimeout: -1})
		q := conn.NewQueue()
		start(t, c, q, read(c, 0, 10))
		time.Sleep(24 * time.Hour)
		must(t, c.Err())
		c.Close()
		c.Recycle(take(t, q))
		finish(t, c)
	})
}
