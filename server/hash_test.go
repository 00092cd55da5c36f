package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// TestRangeTooLongToHash: a hole may have any length.
func TestRangeTooLongToHash(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	c.put("/f", "x")
	c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f", Attrs: wire.Attrs{Flags: wire.AttrSize,
		Size: 1<<63 - 1}})
	h := c.open("/f", wire.OpenRead)
	for _, m := range []wire.CheckFile{{Name: wire.ExtCheckFileHandle, Target: h},
		{Name: wire.ExtCheckFileName, Target: []byte("/f")},
		{Name: wire.ExtCheckFileHandle, Target: h, Length: 1<<40 + 1}} {
		m.Algorithms = "md5"
		want(t, c.status(m), wire.Failure)
	}
	p := c.do(wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "md5",
		Length: 1 << 20})
	want(t, p.typ, wire.TypeExtendedReply)
	c.close(h)
}

// readable returns a tree whose files can be read, and nothing else.
func readable(files *memfs.FS) wrapping {
	return wrapping{files, func(f memFile) server.File {
		return struct {
			server.File
			io.ReaderAt
		}{f, f}
	}}
}

// sizeless says that its files have no bytes, as /proc does.
type sizeless struct{ wrapping }

type emptyInfo struct{ fs.FileInfo }

func (emptyInfo) Size() int64 { return 0 }

func (s sizeless) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := s.wrapping.Stat(ctx, name)
	return emptyInfo{info}, err
}

// TestHashOfPlainFiles: files are hashed to their end, also if they cannot describe themselves, or
// have no size.
func TestHashOfPlainFiles(t *testing.T) {
	files := memfs.New(0)
	start(t, files, nil).put("/f", "text")
	sum := sha256.Sum256([]byte("text"))
	for _, backend := range []server.FS{readable(files), sizeless{readable(files)}} {
		c := start(t, backend, nil)
		for name, target := range map[string][]byte{wire.ExtCheckFileName: []byte("/f"),
			wire.ExtCheckFileHandle: c.open("/f", wire.OpenRead)} {
			p := c.do(wire.CheckFile{Name: name, Target: target, Algorithms: "sha256"})
			if p.typ != wire.TypeExtendedReply || !bytes.HasSuffix(p.body, sum[:]) {
				t.Errorf("%T: %s is answered by %v", backend, name, p.describe(t))
			}
		}
	}
}
