package testenv_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// TestFreePort: a program can listen on a free port, until then it refuses connections, and the
// system gives it to nobody else.
func TestFreePort(t *testing.T) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t)))
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before it is listened on: %v", err)
	}
	for range 3 { // a server may start again
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		l.Close()
	}
	for range 5_000 { // of some 28,000
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if l.Close(); l.Addr().String() == addr {
			t.Fatal("somebody else has got it")
		}
	}
}
