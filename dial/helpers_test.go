package dial

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"time"
)

// testContext bounds a test that talks to another process.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
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
