package dial

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// testContext bounds a test that talks to another process.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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

func TestNative(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	for range 3 {
		s, err := conn.Open(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		greet(t, s)
	}
	if err := conn.Keepalive(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Log(conn.ServerVersion(), conn.SSH().Conn)
}

func TestSystem(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, SSH: "ssh"})
	s, err := conn.Open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	greet(t, s)
}
