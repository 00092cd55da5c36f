//go:build !race

package conn_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/wire"
)

// TestSteadyStateAllocatesNothing counts the allocations of a window of READs and WRITEs, the
// peer's included.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	client, server := net.Pipe()
	go echo(server)
	c := conn.New(client, client, conn.Config{})
	defer c.Close()
	if err := c.Handshake(context.Background()); err != nil {
		t.Fatal(err)
	}
	q, ctx := conn.NewQueue(), context.Background()
	handle := []byte("h")
	cycle := func() {
		for i := range 16 {
			call := c.NewCall()
			if i%2 == 0 {
				call.Request = wire.Read{Handle: handle, Offset: 7,
					Length: 100_000}.Append(call.Scratch(), 0)
				call.Expect = wire.TypeData
			} else {
				call.Payload = c.Pool().Get(100_000)
				packet := wire.Write{Handle: handle,
					Data: call.Payload.Bytes()[100:90_000]}.AppendHeader(call.Payload.Bytes()[:0],
					0)
				call.Request = packet[:len(packet)+90_000-100]
				call.Expect = wire.TypeStatus
			}
			call.Bytes = 100_000
			call.Done = q
			if err := c.Start(ctx, call); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; n < 16; {
			call, err := q.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if call == nil {
				continue
			}
			if call.Err != nil {
				t.Fatal(call.Err)
			}
			c.Recycle(call)
			n++
		}
	}
	for range 20 { // the pool fills
		cycle()
	}
	if n := testenv.Allocations(200, cycle); n >= 1 {
		t.Errorf("16 packets cost %v allocations", n)
	}
	if out := c.Pool().Out(); out != 0 {
		t.Errorf("%d bytes are lent", out)
	}
}

// echo is a server that allocates nothing: a READ gets 50,000 bytes, anything else success.
func echo(stream io.ReadWriteCloser) {
	defer stream.Close()
	in := make([]byte, wire.MaxPacket)
	out := make([]byte, 0, wire.MaxPacket)
	data := make([]byte, 50_000)
	if _, err := io.ReadFull(stream, in[:wire.LengthSize+5]); err != nil { // INIT
		return
	}
	out = wire.InitReply{Version: 3}.Append(out)
	for {
		if _, err := stream.Write(out); err != nil {
			return
		}
		if _, err := io.ReadFull(stream, in[:wire.LengthSize]); err != nil {
			return
		}
		packet := in[wire.LengthSize:]
		packet = packet[:int(in[1])<<16|int(in[2])<<8|int(in[3])]
		if _, err := io.ReadFull(stream, packet); err != nil {
			return
		}
		kind, id, _, err := wire.ParseHeader(packet)
		if err != nil {
			return
		}
		if kind == wire.TypeRead {
			out = wire.Data{Data: data}.Append(out[:0], id)
		} else {
			out = wire.Status{}.Append(out[:0], id)
		}
	}
}
