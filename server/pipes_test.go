package server_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// pipeConn is the client's end of two pipes.
type pipeConn struct {
	net.Conn
	in, out *os.File
}

func (p *pipeConn) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipeConn) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipeConn) Close() error {
	p.in.Close()
	return p.out.Close()
}

// startPipes serves dir over pipes of the system.
func startPipes(t *testing.T, dir string) *raw {
	t.Helper()
	backend, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, conn: &pipeConn{in: ourIn, out: ourOut}, done: make(chan error, 1)}
	go func() {
		c.done <- server.Serve(t.Context(), server.Pipes(theirIn, theirOut), backend,
			nil)
	}()
	t.Cleanup(func() {
		c.conn.Close()
		<-c.done
		backend.Close()
	})
	c.send(wire.Init{Version: 3}.Append(nil))
	c.receive()
	return c
}

func TestPipes(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 3<<20+4321)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	c := startPipes(t, dir)
	h := c.open("/f", wire.OpenRead)
	type span struct{ from, to int }
	wanted := map[uint32]span{}
	replies := make(chan packet, 500)
	go func() {
		defer close(replies)
		for range cap(replies) {
			p, err := c.tryReceive()
			if err != nil {
				return
			}
			replies <- p
		}
	}()
	for i := range cap(replies) {
		// Long ones and short ones, some past the end of the file, with other requests in between.
		from, n := rand.IntN(len(data)), 1+rand.IntN(wire.MaxData)
		if i%3 == 0 {
			n = 1 + rand.IntN(100)
		}
		if i%10 == 0 {
			wanted[c.ask(stat("/f"))] = span{}
			continue
		}
		wanted[c.ask(wire.Read{Handle: h, Offset: uint64(from), Length: uint32(n)})] = span{from,
			min(len(data), from+n)}
	}
	for p := range replies {
		s, ok := wanted[p.id]
		if delete(wanted, p.id); !ok {
			t.Fatalf("a reply %d to nothing", p.id)
		}
		if s.to == 0 {
			want(t, p.attrs(t).Size, uint64(len(data)))
		} else if !bytes.Equal(p.data(t), data[s.from:s.to]) {
			t.Fatalf("bytes %d to %d are wrong", s.from, s.to)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("%d requests were not answered", len(wanted))
	}
	want(t, c.status(wire.Read{Handle: h, Offset: uint64(len(data)), Length: wire.MaxData}),
		wire.EOF)
	c.close(h)
}

// TestPipesWithoutReader has the client leave while replies fill its pipe.
func TestPipesWithoutReader(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 4<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, closeReader := range []bool{true, false} {
		c := startPipes(t, dir)
		h := c.open("/f", wire.OpenRead)
		for range 100 {
			c.ask(wire.Read{Handle: h, Length: wire.MaxData})
		}
		if closeReader {
			c.conn.(*pipeConn).in.Close()
		} else {
			c.conn.Close()
		}
		select {
		case err := <-c.done:
			c.done <- err
			if err == nil {
				t.Error("Serve says that all was well")
			}
		case <-time.After(time.Minute):
			t.Fatal("the session does not end")
		}
	}
}

// TestPipesSeeChanges: what is read did exist, in whole packets, whatever happens to the file.
func TestPipesSeeChanges(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, bytes.Repeat([]byte("a"), 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	c := startPipes(t, dir)
	h := c.open("/f", wire.OpenRead)
	if err := os.Truncate(name, 100_000); err != nil {
		t.Fatal(err)
	}
	want(t, len(c.do(wire.Read{Handle: h, Length: 200_000}).data(t)), 100_000)
	want(t, c.status(wire.Read{Handle: h, Offset: 100_000, Length: 200_000}), wire.EOF)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, "more"); err != nil {
		t.Fatal(err)
	}
	want(t, string(c.do(wire.Read{Handle: h, Offset: 100_000, Length: 200_000}).data(t)), "more")
}
