package bigconn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/bigconn"
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
	want := make([]byte, 3*bigconn.Size+7)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	go func() {
		b.Write(want)
		b.Close()
	}()
	conn := bigconn.New(a, &bigconn.Pool{})
	var got bytes.Buffer
	for size := 1; ; size = size*3 + 1 {
		p := make([]byte, min(size, 2*bigconn.Size))
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
	conn := bigconn.New(a, &bigconn.Pool{})
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
	got, err := io.ReadAll(bigconn.New(a, &bigconn.Pool{}))
	if err != nil || string(got) != "hello" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// counting counts writes, and lets them through one by one.
type counting struct {
	net.Conn
	gate   chan struct{}
	writes chan []byte
}

func (c *counting) Write(p []byte) (int, error) {
	<-c.gate
	c.writes <- bytes.Clone(p)
	return len(p), nil
}

func (c *counting) Close() error { return nil }

func TestWritesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := &counting{gate: make(chan struct{}), writes: make(chan []byte, 100)}
		conn := bigconn.New(under, &bigconn.Pool{})
		large := bytes.Repeat([]byte("x"), 4096)
		for range 10 {
			if n, err := conn.Write(large); n != len(large) || err != nil {
				t.Fatal(n, err)
			}
			synctest.Wait() // the first is under way
		}
		close(under.gate)
		synctest.Wait()
		if n := len(under.writes); n != 2 {
			t.Errorf("%d writes", n)
		}
		if a, b := <-under.writes, <-under.writes; len(a) != 4096 || len(b) != 9*4096 {
			t.Errorf("writes of %d and %d bytes", len(a), len(b))
		}
		// A short one with nothing under way does not wait for anybody.
		conn.Write([]byte("short"))
		if n := len(under.writes); n != 1 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestWriterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := &counting{gate: make(chan struct{}), writes: make(chan []byte, 100)}
		conn := bigconn.New(under, &bigconn.Pool{})
		done := make(chan int)
		go func() {
			n, _ := conn.Write(make([]byte, 10*bigconn.Size))
			done <- n
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("everything was taken")
		default:
		}
		// The peer takes nothing: Close gives up in time, and ends the write.
		began := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			close(under.gate)
		}()
		conn.Close()
		if n := <-done; n == 10*bigconn.Size {
			t.Error("everything was taken")
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("Close took %v", took)
		}
		if _, err := conn.Write(large()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func large() []byte { return make([]byte, 5000) }

func TestCloseLetsTheLastWordsOut(t *testing.T) {
	a, b := pair(t)
	conn := bigconn.New(a, &bigconn.Pool{})
	want := bytes.Repeat([]byte("last words "), 10_000)
	if _, err := conn.Write(want); err != nil {
		t.Fatal(err)
	}
	go conn.Close()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), len(want), err)
	}
}

func TestErrorsOfWritesComeLater(t *testing.T) {
	a, b := pair(t)
	b.Close()
	conn := bigconn.New(a, &bigconn.Pool{})
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		_, err = conn.Write(large())
	}
	if err == nil {
		t.Error("nobody noticed that the peer has gone")
	}
}
