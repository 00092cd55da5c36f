package dial

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// A link that carries all it is given is seen to be fast, and compressing for it to be in vain.
func TestRateOfFastLink(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Accept(t, l, func(c net.Conn) { io.Copy(io.Discard, c) })
	socket, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var c Compression
	counts := c.counts()
	go c.watch(&Conn{ctx: ctx}, counts, socket.(*net.TCPConn))
	for rate, piece := 0.0, make([]byte, 64<<10); rate == 0; {
		n, err := socket.Write(piece)
		if err != nil {
			t.Fatal(err)
		}
		counts.Sent.Packed.Add(int64(n))
		c.mu.Lock()
		if rate = c.rate(); rate != 0 && rate < 8<<20 {
			t.Errorf("%.0f bytes per second", rate)
		}
		c.mu.Unlock()
	}
	way := &counts.Sent
	way.Plain.Store(100e6)
	way.Packed.Store(30e6)
	way.Spent.Store(int64(20 * time.Second))
	way.First.Store(1)
	way.Last.Store(1 + int64(21*time.Second))
	if says := c.Advice(); !strings.HasSuffix(says, "it is faster not to compress here") {
		t.Errorf("the advice is %q", says)
	}
}
