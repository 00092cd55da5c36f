package sshd

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// tcpPair makes a loopback connection with small buffers, which fill up soon if the far end does
// not read.
func tcpPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

// TestSlowLinkIsNoIdleOne: while a client still takes what was written long ago, however slowly,
// its connection is not idle; once it takes nothing any more, it is.
func TestSlowLinkIsNoIdleOne(t *testing.T) {
	near, far := tcpPair(t)
	if _, waiting := acknowledged(near); waiting {
		t.Error("bytes are waiting on a new connection")
	}
	// More than the buffers hold: this single Write lasts for the whole test.
	ended := make(chan error, 1)
	go func() {
		_, err := near.Write(make([]byte, 64<<20))
		ended <- err
	}()
	conn := &connection{Conn: near}
	const timeout = 300 * time.Millisecond
	stop := conn.watchIdle(timeout, slog.New(slog.DiscardHandler))
	defer stop()
	taken := int64(0)
	for began := time.Now(); time.Since(began) < 5*timeout; {
		n, err := io.CopyN(io.Discard, far, 256<<10)
		if taken += n; err != nil {
			t.Fatalf("closed as idle after %d bytes, in the middle of a transfer: %v", taken, err)
		}
		time.Sleep(timeout / 10) // simulates a slow link
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("all was taken in the end")
		}
	case <-time.After(50 * timeout):
		t.Error("a client that takes nothing any more is not idle")
	}
}
