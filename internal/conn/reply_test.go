package conn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// packet frames a body by hand, for what the wire package would not say.
func packet(kind wire.Type, id uint32, body ...byte) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(5+len(body)))
	p = append(p, byte(kind))
	p = binary.BigEndian.AppendUint32(p, id)
	return append(p, body...)
}

func TestRepliesInAnyOrder(t *testing.T) {
	for _, pieces := range []int{0, 1, 7, 4096} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{MaxPiece: pieces}, conn.Config{})
			q := conn.NewQueue()
			const calls = 200
			for i := range calls {
				call := read(c, uint64(i), 1+i*17)
				call.Tag = i
				start(t, c, q, call)
			}
			requests := make([]request, calls)
			for i := range requests {
				requests[i] = p.next()
			}
			order := rand.New(rand.NewPCG(1, uint64(pieces)))
			order.Shuffle(calls, func(i, j int) {
				requests[i], requests[j] = requests[j],
					requests[i]
			})
			for _, r := range requests {
				var asked wire.Read
				must(t, asked.Parse(r.body))
				p.send(wire.Data{Data: content(int(asked.Length), byte(asked.Offset))}.Append(nil,
					r.id))
			}
			for i := range calls {
				call := take(t, q)
				var asked wire.Read
				must(t, asked.Parse(requests[i].body))
				if call.Tag != int(asked.Offset) ||
					string(call.Body) != string(content(1+call.Tag*17, byte(call.Tag))) {
					t.Fatalf("reply %d: call %d with %d bytes, want call %d", i, call.Tag,
						len(call.Body), asked.Offset)
				}
				c.Recycle(call)
			}
			finish(t, c)
		})
	}
}

// TestBrokenReplies checks that each breach of the protocol ends the connection with an error that
// names it, and gives every call in flight that same error.
func TestBrokenReplies(t *testing.T) {
	u32 := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, test := range []struct {
		name  string
		reply func(id uint32) []byte // to a READ for 100 bytes
		want  string
	}{
		{"unknown slot", func(id uint32) []byte {
			return packet(wire.TypeStatus, id+40,
				u32(0)...)
		}, "not in flight"},
		{"another use of the slot", func(id uint32) []byte {
			return packet(wire.TypeStatus,
				id+1<<16, u32(0)...)
		}, "not in flight"},
		{"id 0", func(uint32) []byte { return packet(wire.TypeStatus, 0, u32(0)...) },
			"not in flight"},
		{"id of all ones", func(uint32) []byte {
			return packet(wire.TypeStatus, 1<<32-1,
				u32(0)...)
		}, "not in flight"},
		{"wrong type", func(id uint32) []byte {
			return packet(wire.TypeHandle, id, 0, 0, 0, 1,
				'h')
		}, "HANDLE in reply to READ"},
		{"a request", func(id uint32) []byte { return packet(wire.TypeRead, id) },
			"READ in reply to READ"},
		{"a type that is none", func(id uint32) []byte { return packet(222, id) },
			"in reply to READ"},
		{"VERSION again", func(uint32) []byte { return wire.InitReply{Version: 3}.Append(nil) },
			""},
		{"length 0", func(uint32) []byte { return make([]byte, 16) }, "a packet of 0 bytes"},
		{"length 4", func(id uint32) []byte {
			return append(u32(4),
				packet(wire.TypeStatus, id)[4:]...)
		}, "a packet of 4 bytes"},
		{"STATUS of 4 GiB", func(id uint32) []byte {
			return append(u32(1<<32-1),
				packet(wire.TypeStatus, id)[4:]...)
		}, "a STATUS of"},
		{"DATA of 4 GiB", func(id uint32) []byte {
			return append(u32(1<<32-1), packet(wire.TypeData, id, u32(1<<32-20)...)[4:]...)
		}, "where 100 were asked for"},
		{"STATUS without code", func(id uint32) []byte {
			return packet(wire.TypeStatus, id, 0, 0,
				0)
		}, "STATUS"},
		{"DATA without length", func(id uint32) []byte { return packet(wire.TypeData, id, 0, 0) },
			"DATA of 2 bytes"},
		{"DATA longer than its packet", func(id uint32) []byte {
			return packet(wire.TypeData, id, append(u32(100), make([]byte, 99)...)...)
		}, "says 100 bytes and holds 99"},
		{"DATA of one byte too many", func(id uint32) []byte {
			return packet(wire.TypeData, id, append(u32(101), make([]byte, 101)...)...)
		}, "DATA of 101 bytes where 100 were asked for"},
		{"DATA with much after its data", func(id uint32) []byte {
			return packet(wire.TypeData, id, append(u32(1), make([]byte, 1<<17)...)...)
		}, "after its data"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
				q := conn.NewQueue()
				start(t, c, q, read(c, 0, 100))
				start(t, c, q, stat(c))
				r := p.next()
				p.next()
				p.send(test.reply(r.id))
				err := ended[*conn.ProtocolError](t, c)
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %q, want it to say %q", err, test.want)
				}
				for range 2 {
					call := take(t, q)
					if call.Err != error(err) {
						t.Errorf("a call's error is %v, want %v", call.Err, err)
					}
					c.Recycle(call)
				}
				finish(t, c)
			})
		})
	}
}

func TestOversizedReplies(t *testing.T) {
	for _, test := range []struct {
		kind wire.Type
		size uint32
	}{
		{wire.TypeName, 1<<30 + 100},
		{wire.TypeName, 1<<32 - 1},
		{wire.TypeExtendedReply, 1<<30 + 100},
		{wire.TypeHandle, 1 << 20},
		{wire.TypeAttrs, 1 << 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
			call := stat(c)
			call.Expect = test.kind
			q := conn.NewQueue()
			start(t, c, q, call)
			head := packet(test.kind, p.next().id)
			binary.BigEndian.PutUint32(head, test.size)
			p.send(head)
			ended[*conn.ProtocolError](t, c)
			c.Recycle(take(t, q))
			finish(t, c)
		})
	}
}

func TestReplyTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
		q := conn.NewQueue()
		start(t, c, q, stat(c))
		r := p.next()
		p.status(r.id, wire.NoSuchFile)
		call := take(t, q)
		if call.Type != wire.TypeStatus || call.Status.Code != wire.NoSuchFile {
			t.Errorf("the reply is %v %v", call.Type, call.Status)
		}
		c.Recycle(call)
		start(t, c, q, stat(c)) // it gets the same slot
		p.next()
		p.status(r.id, wire.NoSuchFile)
		ended[*conn.ProtocolError](t, c)
		c.Recycle(take(t, q))
		finish(t, c)
	})
}

// TestReplyBeforeItsRequest guesses the id of a WRITE that waits behind others on a stream that
// takes nothing.
func TestReplyBeforeItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{Buffer: 1000}, conn.Config{})
		q := conn.NewQueue()
		var guess uint32
		for i := range 10 {
			start(t, c, q, write(c, 0, 200_000))
			if i == 0 {
				synctest.Wait()
				head := make([]byte, wire.HeaderSize)
				_, err := io.ReadFull(p, head)
				must(t, err)
				guess = binary.BigEndian.Uint32(head[wire.LengthSize+1:])
			}
		}
		p.ok(guess) // the one that is being written may be answered early
		synctest.Wait()
		must(t, c.Err())
		p.ok(guess + 9*(1<<16+1)) // the last one's
		ended[*conn.ProtocolError](t, c)
		for range 10 {
			c.Recycle(take(t, q))
		}
		finish(t, c)
	})
}

// TestEarlyReply answers a WRITE that is only half sent: it completes when the writer is done with
// it, and only once.
func TestEarlyReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{Buffer: 1000}, conn.Config{})
		q := conn.NewQueue()
		call := write(c, 0, 200_000)
		size := len(call.Request)
		start(t, c, q, call)
		head := make([]byte, wire.HeaderSize)
		_, err := io.ReadFull(p, head)
		must(t, err)
		p.status(binary.BigEndian.Uint32(head[wire.LengthSize+1:]), wire.Failure)
		synctest.Wait()
		if q.Take() != nil {
			t.Fatal("a WRITE was complete before it had been sent")
		}
		_, err = io.CopyN(io.Discard, p, int64(size-len(head)))
		must(t, err)
		call = take(t, q)
		if call.Status.Code != wire.Failure {
			t.Errorf("the status is %v", call.Status)
		}
		c.Recycle(call)
		finish(t, c)
	})
}

func TestStatusForms(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	for _, test := range []struct {
		name string
		body []byte
		want wire.Status
	}{
		{"no message", []byte{0, 0, 0, 4}, wire.Status{Code: wire.Failure}},
		{"no language", append([]byte{0, 0, 0, 4}, 0, 0, 0, 2, 'n', 'o'),
			wire.Status{Code: wire.Failure, Message: "no"}},
		{"success and its message", append([]byte{0, 0, 0, 0}, 0, 0, 0, 2, 'o', 'k'),
			wire.Status{}},
		{"long", wire.Status{Code: wire.Failure, Message: long}.Append(nil, 0)[wire.HeaderSize:],
			wire.Status{Code: wire.Failure, Message: long}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
			q := conn.NewQueue()
			start(t, c, q, stat(c))
			p.send(packet(wire.TypeStatus, p.next().id, test.body...))
			call := take(t, q)
			if call.Status != test.want {
				t.Errorf("%s: %.80v, want %.80v", test.name, call.Status, test.want)
			}
			c.Recycle(call)
			finish(t, c)
		})
	}
}

// TestLargeName takes a NAME packet of 7 MB, as one server sends them; while it comes in, memory
// follows what is here.
func TestLargeName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
		call := stat(c)
		call.Expect = wire.TypeName
		q := conn.NewQueue()
		start(t, c, q, call)
		reply := packet(wire.TypeName, p.next().id, make([]byte, 7<<20)...)
		rand.NewChaCha8([32]byte{1}).Read(reply[wire.HeaderSize:])
		for len(reply) > 0 {
			piece := reply[:min(len(reply), 100_000)]
			p.send(piece)
			reply = reply[len(piece):]
			synctest.Wait()
			arrived := 7<<20 - int64(len(reply))
			if out := c.Pool().Out(); out > max(2*arrived, 512<<10) {
				t.Fatalf("%d bytes are lent for a packet of which %d have come", out, arrived)
			}
		}
		call = take(t, q)
		want := make([]byte, 7<<20)
		rand.NewChaCha8([32]byte{1}).Read(want)
		if string(call.Body) != string(want) {
			t.Errorf("a body of %d bytes is not what was sent", len(call.Body))
		}
		c.Recycle(call)
		finish(t, c)
	})
}

// TestReplyBeyondRoom: a reply that is larger than what may be held fails its own call, at once,
// passes by without taking memory, and leaves the connection as it was. One of 40 MiB is taken.
func TestReplyBeyondRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := connect(t, sftptest.LinkConfig{}, conn.Config{})
		q := conn.NewQueue()
		piece := content(1<<20, 'n')
		for _, mebibytes := range []int{40, 200} {
			call := stat(c)
			call.Expect = wire.TypeName
			start(t, c, q, call)
			head := packet(wire.TypeName, p.next().id)
			binary.BigEndian.PutUint32(head, uint32(mebibytes<<20+5))
			p.send(head)
			synctest.Wait()
			call = q.Take()
			var protocol *conn.ProtocolError
			switch {
			case mebibytes == 40 && call != nil:
				t.Fatalf("the reply is complete before it is here: %v", call.Err)
			case mebibytes == 40:
			case call == nil || !errors.As(call.Err, &protocol) ||
				errors.Is(call.Err, net.ErrClosed):
				t.Fatalf("a reply of 200 MiB: %v", call)
			default:
				c.Recycle(call)
			}
			most := int64(0)
			for range mebibytes {
				p.send(piece)
				most = max(most, c.Pool().Out())
			}
			synctest.Wait()
			if mebibytes == 40 {
				call = take(t, q)
				if call.Err != nil || len(call.Body) != 40<<20 ||
					call.Body[len(call.Body)-1] != 'n' {
					t.Errorf("a reply of 40 MiB: %v", call.Err)
				}
				c.Recycle(call)
			} else if most > 0 {
				t.Errorf("%d bytes were lent for what passes by", most)
			}
		}
		start(t, c, q, stat(c))
		p.status(p.next().id, wire.NoSuchFile)
		call := take(t, q)
		if call.Status.Code != wire.NoSuchFile {
			t.Errorf("afterwards: %v %v", call.Status, call.Err)
		}
		c.Recycle(call)
		finish(t, c)
	})
}

// TestTruncatedStream ends the stream after each byte of a conversation. Whatever is in flight
// completes with an error that says so; between packets the server has closed, within one the
// connection was lost.
func TestTruncatedStream(t *testing.T) {
	version := wire.InitReply{Version: 3,
		Extensions: []wire.ExtensionPair{{Name: "a", Data: "1"}}}.Append(nil)
	data := func(id uint32) []byte { return wire.Data{Data: content(30, 'x')}.Append(nil, id) }
	name := func(id uint32) []byte { return packet(wire.TypeName, id, make([]byte, 20)...) }
	status := func(id uint32) []byte {
		return wire.Status{Code: wire.Failure,
			Message: "no"}.Append(nil, id)
	}
	whole := len(data(0)) + len(name(0)) + len(status(0))
	for cut := range whole + 1 {
		synctest.Test(t, func(t *testing.T) {
			client, server := sftptest.NewLink(sftptest.LinkConfig{})
			c, p := conn.New(client, client, conn.Config{}), &peer{t, server}
			p.next()
			p.send(version)
			must(t, c.Handshake(context.Background()))
			q := conn.NewQueue()
			listing := stat(c)
			listing.Expect = wire.TypeName
			for _, call := range []*conn.Call{read(c, 0, 100), listing, stat(c)} {
				start(t, c, q, call)
			}
			all := data(p.next().id)
			all = append(all, name(p.next().id)...)
			all = append(all, status(p.next().id)...)
			p.send(all[:cut])
			p.Close()
			lost := ended[*conn.LostError](t, c)
			between := cut == 0 || cut == len(data(0)) || cut == len(data(0))+len(name(0)) ||
				cut == whole
			if want := map[bool]error{true: io.EOF,
				false: io.ErrUnexpectedEOF}[between]; lost.Cause != want {
				t.Errorf("cut after %d bytes: the cause is %v, want %v", cut, lost.Cause, want)
			}
			failed := 0
			for range 3 {
				call := take(t, q)
				if call.Err != nil {
					failed++
				}
				c.Recycle(call)
			}
			want := 3
			for _, n := range []int{len(data(0)), len(data(0)) + len(name(0)), whole} {
				if cut >= n {
					want--
				}
			}
			if failed != want {
				t.Errorf("cut after %d bytes: %d calls have failed, want %d", cut, failed, want)
			}
			finish(t, c)
		})
	}
}
