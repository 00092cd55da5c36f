package conn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// FuzzReplies feeds a connection with calls in flight arbitrary bytes as what its server says.
// Whatever they are, every call comes to one end, and so does the connection; nothing is lent
// afterwards, and never more than what has come allows.
func FuzzReplies(f *testing.F) {
	version := wire.InitReply{Version: 3}.Append(nil)
	id := func(slot uint32) uint32 { return (slot+1)<<16 | slot } // of the calls below
	f.Add([]byte("This account is currently not available.\n"), uint8(0), uint8(0))
	f.Add(version, uint8(1), uint8(0))
	f.Add(append(wire.Data{Data: make([]byte, 10)}.Append(nil, id(0)),
		wire.Status{Code: wire.EOF}.Append(nil, id(1))...), uint8(3), uint8(1))
	f.Add(wire.Names{Names: []wire.Name{{Filename: "a"}}}.Append(nil, id(2)), uint8(0), uint8(1))
	f.Add(append(wire.Status{}.Append(nil, id(3)),
		wire.Handle{Handle: []byte("h")}.Append(nil, id(4))...), uint8(0), uint8(2))
	f.Add(append([]byte{1, 0, 0, 0}, packet(wire.TypeName, id(2))[4:]...), uint8(0), uint8(1))
	f.Add(append([]byte{0, 0xf0, 0, 0}, packet(wire.TypeName, id(2))[4:]...), uint8(0), uint8(3))
	f.Fuzz(func(t *testing.T, said []byte, pieces, how uint8) {
		synctest.Test(t, func(t *testing.T) {
			client, server := sftptest.NewLink(sftptest.LinkConfig{MaxPiece: int(pieces)})
			c := conn.New(client, client, conn.Config{StallTimeout: patience})
			go io.Copy(io.Discard, server)
			q := conn.NewQueue()
			calls := 0
			for _, call := range []*conn.Call{read(c, 0, 100), read(c, 0, 100_000), stat(c),
				write(c, 0, 50), stat(c), stat(c), write(c, 0, 5000)} {
				call.Expect = []wire.Type{wire.TypeData, wire.TypeData, wire.TypeName,
					wire.TypeStatus, wire.TypeHandle, wire.TypeAttrs, wire.TypeStatus}[calls]
				call.Tag = calls
				start(t, c, q, call)
				calls++
			}
			synctest.Wait()
			if how&1 != 0 {
				server.Write(version)
			}
			server.Write(said)
			synctest.Wait()
			if most := int64(3*len(said) + 1<<20); c.Pool().Out() > most {
				t.Errorf("%d bytes are lent after %d have come", c.Pool().Out(), len(said))
			}
			if how&2 != 0 {
				server.CloseWrite()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			c.Handshake(ctx)
			select {
			case <-c.Dead():
			case <-ctx.Done(): // only calls that nobody can be asked about are left
				c.Close()
			}
			if err := c.Err(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the connection ended with %v", err)
			}
			seen := make(map[int]bool)
			for range calls {
				call := take(t, q)
				if seen[call.Tag] {
					t.Errorf("call %d is complete twice", call.Tag)
				}
				seen[call.Tag] = true
				if call.Err == nil && call.Type != call.Expect && call.Type != wire.TypeStatus {
					t.Errorf("%v in reply to a call that expects %v", call.Type, call.Expect)
				}
				if call.Err == nil && call.Type == wire.TypeData && len(call.Body) > call.Bytes {
					t.Errorf("%d bytes of data where %d were asked for", len(call.Body), call.Bytes)
				}
				c.Recycle(call)
			}
			synctest.Wait()
			if extra := q.Take(); extra != nil {
				t.Error("a call too many")
			}
			finish(t, c)
		})
	})
}
