package server_test

import (
	"io"
	"net"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// lyingFile returns a count that no file can.
type lyingFile struct {
	memFile
	count int
}

func (f *lyingFile) ReadAt(p []byte, offset int64) (int, error) {
	f.memFile.ReadAt(p, offset)
	return f.count, nil
}

// A backend's count beyond what was asked for must not send memory that others have used.
func TestImpossibleCounts(t *testing.T) {
	for _, count := range []int{-1, -1 << 40, 5, 1000, 300 << 10, 1 << 40} {
		backend := wrapping{memfs.New(0),
			func(f memFile) server.File { return &lyingFile{f, count} }}
		c := start(t, backend, nil)
		c.put("/f", "text")
		h := c.open("/f", wire.OpenRead)
		for _, m := range []message{wire.Read{Handle: h, Length: 4},
			wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "sha256", Length: 4}} {
			if code := c.status(m); code != wire.Failure {
				t.Errorf("%T of %d bytes: %v", m, count, code)
			}
		}
	}
}

// Without a backend Serve says so at once, and closes the stream, before a client asks for a file.
func TestNoBackend(t *testing.T) {
	ours, theirs := net.Pipe()
	if err := server.Serve(t.Context(), theirs, nil, nil); err == nil {
		t.Error("nothing was served")
	}
	if _, err := ours.Write([]byte{0}); err != io.ErrClosedPipe {
		t.Error(err)
	}
}
