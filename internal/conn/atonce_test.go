//go:build linux || darwin

package conn_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/wire"
)

// wirePeer is the server's end of a stream of the operating system's.
type wirePeer struct {
	t *testing.T
	io.Reader
	io.Writer
}

// realStreams runs a test over each kind of stream that is written at once. Small ones do not hold
// a large packet.
func realStreams(t *testing.T, small bool, test func(t *testing.T, c *conn.Conn, p *wirePeer)) {
	shake := func(t *testing.T, r io.Reader, w io.WriteCloser, p *wirePeer) *conn.Conn {
		c := conn.New(r, w, conn.Config{})
		t.Cleanup(func() { c.Close() })
		if r := p.next(); r.kind != wire.TypeInit {
			t.Fatalf("the first packet is %v", r.kind)
		}
		p.send(wire.InitReply{Version: 3}.Append(nil))
		must(t, c.Handshake(context.Background()))
		return c
	}
	t.Run("pipe", func(t *testing.T) {
		fromClient, w, err := os.Pipe()
		must(t, err)
		r, toClient, err := os.Pipe()
		must(t, err)
		t.Cleanup(func() { fromClient.Close(); toClient.Close() })
		p := &wirePeer{t, fromClient, toClient}
		test(t, shake(t, r, w, p), p)
	})
	t.Run("TCP", func(t *testing.T) {
		client, server := testenv.TCPPair()
		if small {
			must(t, client.SetWriteBuffer(16<<10))
			must(t, server.SetReadBuffer(16<<10))
		}
		t.Cleanup(func() { server.Close() })
		p := &wirePeer{t, server, server}
		test(t, shake(t, client, client, p), p)
	})
}

func (p *wirePeer) next() request {
	p.t.Helper()
	var length [wire.LengthSize]byte
	if _, err := io.ReadFull(p, length[:]); err != nil {
		p.t.Fatalf("the peer's Read: %v", err)
	}
	packet := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(p, packet); err != nil {
		p.t.Fatalf("the peer's Read: %v", err)
	}
	kind, id, body, err := wire.ParseHeader(packet)
	if err != nil {
		p.t.Fatal(err)
	}
	return request{kind, id, body}
}

func (p *wirePeer) send(packet []byte) {
	p.t.Helper()
	if _, err := p.Write(packet); err != nil {
		p.t.Fatalf("the peer's Write: %v", err)
	}
}

func (p *wirePeer) ok(r request) { p.send(wire.Status{}.Append(nil, r.id)) }

// lend makes a call of WRITE whose data is the caller's.
func lend(c *conn.Conn, off uint64, data []byte) *conn.Call {
	call := c.NewCall()
	call.Request = wire.Write{Handle: []byte("h"), Offset: off,
		Data: data}.AppendHeader(call.Scratch(), 0)
	call.Data = data
	call.Expect = wire.TypeStatus
	call.Bytes = len(data)
	return call
}

func checkWrite(t *testing.T, r request, off uint64, data []byte) {
	t.Helper()
	var w wire.Write
	if r.kind != wire.TypeWrite {
		t.Fatalf("%v came, not a WRITE", r.kind)
	}
	must(t, w.Parse(r.body))
	if w.Offset != off || !bytes.Equal(w.Data, data) {
		t.Errorf("a WRITE of %d bytes at %d came, or other bytes than the %d that were meant",
			len(w.Data), w.Offset, len(data))
	}
}

// TestDoBorrowsData: a WRITE that the stream takes at once is never copied.
func TestDoBorrowsData(t *testing.T) {
	realStreams(t, true, func(t *testing.T, c *conn.Conn, p *wirePeer) {
		data := content(5000, 'd')
		var held int64 // lent to nobody, so that a copy shows
		for borrowed := 0; borrowed < 10; {
			done := make(chan error)
			go func() { done <- c.Do(context.Background(), lend(c, 7, data)) }()
			r := p.next()
			checkWrite(t, r, 7, data)
			p.ok(r)
			must(t, <-done)
			switch {
			case c.Pool().Out() == held && c.Pool().Kept() == 0:
				borrowed++
			case borrowed > 0:
				t.Fatal("with nobody else writing, data was copied")
			}
			for c.Pool().Kept() > 0 { // at first the writer may still be busy with INIT
				held += int64(len(c.Pool().Get(len(data)).Bytes()))
			}
		}
	})
}

// TestDoGivesTheBufferBack cancels a WRITE of which the stream has taken a part, and writes over
// its data; all of it arrives as it was, and before what was started after it.
func TestDoGivesTheBufferBack(t *testing.T) {
	realStreams(t, true, func(t *testing.T, c *conn.Conn, p *wirePeer) {
		data := content(wire.MaxData, 'd') // more than there is room for between the two
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- c.Do(ctx, lend(c, 7, data)) }()
		var length [wire.LengthSize]byte
		if _, err := io.ReadFull(p, length[:]); err != nil { // it has been begun
			t.Fatal(err)
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Do returned %v", err)
		}
		want := bytes.Clone(data)
		clear(data)
		after := make(chan error)
		go func() { after <- c.Do(context.Background(), stat(c)) }()

		r := (&wirePeer{t, io.MultiReader(bytes.NewReader(length[:]), p.Reader), p.Writer}).next()
		checkWrite(t, r, 7, want)
		p.ok(r)
		r = p.next()
		if r.kind != wire.TypeStat {
			t.Errorf("behind the WRITE came %v", r.kind)
		}
		p.send(wire.Status{Code: wire.EOF}.Append(nil, r.id))
		must(t, <-after)
		must(t, c.Close())
		if out := c.Pool().Out(); out != 0 {
			t.Errorf("%d bytes are still lent", out)
		}
	})
}

// TestCloseWhilePartWasTaken: the rest of a request is with the writer, which the stream's end
// frees.
func TestCloseWhilePartWasTaken(t *testing.T) {
	realStreams(t, true, func(t *testing.T, c *conn.Conn, p *wirePeer) {
		ended := make(chan error)
		go func() { ended <- c.Do(context.Background(), lend(c, 7, content(wire.MaxData, 'd'))) }()
		if _, err := io.ReadFull(p, make([]byte, wire.LengthSize)); err != nil {
			t.Fatal(err)
		}
		within(t, time.Second/2, "Close", func() { must(t, c.Close()) })
		if err := <-ended; !errors.Is(err, conn.ErrClosed) {
			t.Errorf("Do returned %v", err)
		}
		if out := c.Pool().Out(); out != 0 {
			t.Errorf("%d bytes are still lent", out)
		}
	})
}

// TestDoCrowd has many write, ask and start at a time; each request arrives whole, and each answer
// finds its call.
func TestDoCrowd(t *testing.T) {
	realStreams(t, false, func(t *testing.T, c *conn.Conn, p *wirePeer) {
		const crowd, rounds = 8, 20
		sizes := []int{1, 3000, 20_000, 100_000, wire.MaxData}
		go func() {
			for range crowd * rounds * 2 {
				r := p.next()
				code := wire.NoSuchFile
				if r.kind == wire.TypeWrite {
					var w wire.Write
					if w.Parse(r.body) == nil && bytes.Count(w.Data,
						[]byte{byte(w.Offset)}) == len(w.Data) {
						code = wire.OK
					}
				}
				p.send(wire.Status{Code: code, Message: fmt.Sprint(len(r.body))}.Append(nil, r.id))
			}
		}()
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() {
				data := make([]byte, wire.MaxData)
				q := conn.NewQueue()
				for round := range rounds {
					p := data[:sizes[(i+round)%len(sizes)]]
					for j := range p {
						p[j] = byte(i + round)
					}
					call := lend(c, uint64(i+round)&0xff, p)
					if i%2 == 0 {
						call.Done = q
						if err := c.Start(context.Background(), call); err != nil {
							t.Error(err)
							return
						}
						clear(p)
						var err error
						for call = nil; call == nil && err == nil; {
							call, err = q.Next(context.Background())
						}
						if err != nil {
							t.Error(err)
							return
						}
					} else if err := c.Do(context.Background(), call); err != nil {
						t.Error(err)
						return
					}
					if call.Err != nil || call.Status.Code != wire.OK {
						t.Errorf("a WRITE of %d bytes: %v %v", len(p), call.Status, call.Err)
					}
					c.Recycle(call)
					ask := stat(c)
					if err := c.Do(context.Background(), ask); err != nil ||
						ask.Status.Code != wire.NoSuchFile {
						t.Errorf("a STAT: %v %v", ask.Status, err)
						return
					}
					c.Recycle(ask)
				}
			})
		}
		all.Wait()
	})
}

// TestDoOnABrokenStream: a stream that cannot be written ends the connection, as it does under the
// writer.
func TestDoOnABrokenStream(t *testing.T) {
	fromClient, w, err := os.Pipe()
	must(t, err)
	r, toClient, err := os.Pipe()
	must(t, err)
	defer toClient.Close()
	p := &wirePeer{t, fromClient, toClient}
	c := conn.New(r, w, conn.Config{})
	defer c.Close()
	p.next()
	p.send(wire.InitReply{Version: 3}.Append(nil))
	must(t, c.Handshake(context.Background()))
	fromClient.Close()
	err = c.Do(context.Background(), stat(c))
	var lost *conn.LostError
	if !errors.As(err, &lost) || lost.Error() != "the SFTP connection was lost: broken pipe" {
		t.Errorf("Do: %v", err)
	}
}

// doneAsked calls a function when somebody begins to wait for the end of the context.
type doneAsked struct {
	context.Context
	asked func()
}

func (d doneAsked) Done() <-chan struct{} {
	d.asked()
	return d.Context.Done()
}

// TestDoOnABrokenStreamHearsTheRest: answers that the peer sent before it went are still taken, as
// after a failure of the writer, and say how it went.
func TestDoOnABrokenStreamHearsTheRest(t *testing.T) {
	fromClient, w, err := os.Pipe()
	must(t, err)
	r, toClient := io.Pipe()
	p := &wirePeer{t, fromClient, toClient}
	c := conn.New(r, w, conn.Config{})
	defer c.Close()
	p.next()
	p.send(wire.InitReply{Version: 3}.Append(nil))
	must(t, c.Handshake(context.Background()))
	q := conn.NewQueue()
	answered := stat(c)
	answered.Done = q
	must(t, c.Start(context.Background(), answered))
	asked := p.next()
	fromClient.Close()
	ended := make(chan error)
	sent := make(chan struct{})
	ctx := doneAsked{context.Background(), sync.OnceFunc(func() { close(sent) })}
	go func() { ended <- c.Do(ctx, stat(c)) }()
	<-sent
	p.send(wire.Status{Code: wire.NoSuchFile}.Append(nil, asked.id))
	toClient.Close()
	if call, err := q.Next(context.Background()); err != nil || call.Err != nil {
		t.Errorf("the answer that was sent is lost: %v, %v", call.Err, err)
	}
	err = <-ended
	if lost, ok := errors.AsType[*conn.LostError](err); !ok || lost.Cause != io.EOF {
		t.Errorf("Do: %v", err)
	}
}
