package bigread_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/bigread"
)

// pair returns the two ends of a TCP connection on loopback.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestReadGivesWhatWasSent(t *testing.T) {
	a, b := pair(t)
	want := make([]byte, 3*bigread.Size+7)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	go func() {
		b.Write(want)
		b.Close()
	}()
	conn := bigread.New(a, &bigread.Pool{})
	var got bytes.Buffer
	for size := 1; ; size = size*3 + 1 {
		p := make([]byte, min(size, 2*bigread.Size))
		n, err := conn.Read(p)
		got.Write(p[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("got %d bytes that differ from the %d sent", got.Len(), len(want))
	}
}

func TestReadObeysDeadlineAndClose(t *testing.T) {
	a, _ := pair(t)
	conn := bigread.New(a, &bigread.Pool{})
	conn.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := conn.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a deadline that has passed: %v", err)
	}
	conn.SetReadDeadline(time.Time{})
	done := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 10))
		done <- err
	}()
	conn.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPassesThroughWhatIsNoSocket(t *testing.T) {
	a, b := net.Pipe()
	go func() {
		b.Write([]byte("hello"))
		b.Close()
	}()
	got, err := io.ReadAll(bigread.New(a, &bigread.Pool{}))
	if err != nil || string(got) != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
}
