package dial

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
)

// testContext bounds a test that talks to another process.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// greet speaks the first words of SFTP (draft-02, section 4) over s: it shows that the
// stream reaches a real server.
func greet(t testing.TB, s io.ReadWriter) {
	t.Helper()
	if _, err := s.Write([]byte{0, 0, 0, 5, 1, 0, 0, 0, 3}); err != nil {
		t.Fatalf("writing INIT: %v", err)
	}
	var head [9]byte
	if _, err := io.ReadFull(s, head[:]); err != nil {
		t.Fatalf("reading VERSION: %v", err)
	}
	if head[4] != 2 || binary.BigEndian.Uint32(head[5:]) != 3 {
		t.Fatalf("INIT was answered with % x", head)
	}
}

func connect(t testing.TB, target Target, c *Config) *Conn {
	t.Helper()
	ctx := testContext(t)
	d, err := New(ctx, target, c)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func open(t testing.TB, c *Conn) *Stream {
	t.Helper()
	s, err := c.Open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	greet(t, s)
	return s
}

func dialError(t testing.TB, target Target, c *Config) error {
	t.Helper()
	d, err := New(testContext(t), target, c)
	if err != nil {
		return err
	}
	conn, err := d.Dial(testContext(t))
	if err == nil {
		conn.Close()
		t.Fatal("it connected")
	}
	return err
}

// none waits until no goroutine of SSH's or ours is left. They end by themselves a
// moment after what they serve has gone, and tell nobody.
func none(t testing.TB) {
	t.Helper()
	buf := make([]byte, 1<<20)
	var stacks string
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(10 * time.Second); ; {
		stacks = ""
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "crypto/ssh") || strings.Contains(g, "usftp/dial.") && !strings.Contains(g, "testing.tRunner") {
				stacks += g + "\n\n"
			}
		}
		if stacks == "" {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("goroutines are left:\n%s", stacks)
		}
	}
}
