package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// script is a client that sends given bytes and reads what comes.
type script struct {
	io.Reader
	replies bytes.Buffer
}

func (s *script) Write(p []byte) (int, error) { return s.replies.Write(p) }
func (s *script) Close() error                { return nil }

// addSessions adds seeds: what real clients send.
func addSessions(f *testing.F) {
	h := []byte{0, 1, 0, 0}
	add := func(messages ...message) {
		b := wire.Init{Version: 3}.Append(nil)
		for i, m := range messages {
			b = m.Append(b, uint32(i))
		}
		f.Add(b)
	}
	add(wire.Open{Path: "/f", Flags: create | wire.OpenRead},
		wire.Write{Handle: h, Offset: 1, Data: []byte("x")},
		wire.Read{Handle: h, Length: 1 << 31}, wire.Fsetstat{Handle: h,
			Attrs: wire.Attrs{Flags: 15, Size: 1 << 62}},
		wire.HandleRequest{Type: wire.TypeClose, Handle: h})
	add(wire.PathRequest{Type: wire.TypeOpendir, Path: "/"},
		wire.HandleRequest{Type: wire.TypeReaddir, Handle: h},
		wire.HandleRequest{Type: wire.TypeFstat,
			Handle: h}, wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h})
	add(wire.Open{Path: "/f", Flags: create}, wire.Write{Handle: h, Data: []byte("x")},
		wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h},
		wire.HandleRequest{Type: wire.TypeClose, Handle: h})
	add(wire.Open{Path: "/f", Flags: create | wire.OpenRead},
		wire.CopyData{FromHandle: h, Length: 1 << 63, ToHandle: h, ToOffset: 1},
		wire.CheckFile{Name: wire.ExtCheckFileHandle, Target: h, Algorithms: "blake3@usftp",
			BlockSize: 256},
		wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte("/f"), Algorithms: "md5",
			Offset: 1 << 63, Length: 1<<64 - 1},
		wire.Chunks{Handle: h, Algorithms: "md5", Length: 1<<64 - 1, Shortest: 4096})
	add(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"},
		putFiles{{Path: "/f", Temporary: "t", Data: []byte("x"), Flags: wire.PutFsync},
			{Path: "/d/../g", Temporary: "f"}, {Path: "/d", Temporary: "t"}},
		getFiles{{Path: "/f", Size: 1}, {Path: "/d", Size: 9}, {Path: "/d/../g"}})
	add(wire.Symlink{First: "../x", Second: "/l"}, wire.Rename{OldPath: "/l", NewPath: "/l/l"},
		wire.PathAttrs{Type: wire.TypeMkdir, Path: "/l/../d"}, wire.Hardlink{OldPath: "/d",
			NewPath: "/e"},
		wire.UsersGroupsByID{UIDs: []uint32{0}}, wire.Limits{},
		wire.ExtendedPath{Name: wire.ExtExpandPath, Path: "~/"})
	add(wire.Open{Path: "/f", Flags: create,
		Attrs: wire.Attrs{Flags: wire.AttrSize, Size: 1 << 19}},
		wire.Hardlink{OldPath: "/f", NewPath: "/g"}, wire.PosixRename{OldPath: "/f",
			NewPath: "/g"}, wire.Write{Handle: h, Offset: 1 << 18, Data: []byte("x")},
		wire.PathRequest{Type: wire.TypeRemove, Path: "/g"}, wire.PathAttrs{Type: wire.TypeSetstat,
			Path: "/f", Attrs: wire.Attrs{Flags: wire.AttrSize}},
		wire.PathRequest{Type: wire.TypeRemove, Path: "/f"}, wire.Open{Path: "/f", Flags: create})
}

// FuzzSession lets a client send anything. The session must end by itself, close what it opened,
// free its memory, and have sent only whole packets, at most one for each request.
func FuzzSession(f *testing.F) {
	addSessions(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		g := newGated()
		g.FS = memfs.New(8 << 20)
		pool := &server.Pool{}
		s := &script{Reader: bytes.NewReader(input)}
		err := server.Serve(context.Background(), s, g, &server.Options{Pool: pool})
		if n := g.open.Load(); n != 0 {
			t.Errorf("%d files are open", n)
		}
		if out := pool.Out(); out != 0 {
			t.Errorf("%d bytes are out", out)
		}
		asked := countPackets(input)
		answered := 0
		for rest := s.replies.Bytes(); len(rest) > 0; answered++ {
			if len(rest) < 5 || uint64(len(rest)) < 4+uint64(binary.BigEndian.Uint32(rest)) {
				t.Fatalf("a reply is cut: %x", rest)
			}
			length := binary.BigEndian.Uint32(rest)
			if length > wire.MaxPacket {
				t.Fatalf("a reply of %d bytes", length)
			}
			rest = rest[4+length:]
		}
		if answered > asked || err == nil && answered != asked {
			t.Errorf("%d packets were answered by %d; Serve returned %v", asked, answered, err)
		}
	})
}

// FuzzQuota lets a client under a quota send anything. When it has left, the count must equal what
// exists, and stay within the limits.
func FuzzQuota(f *testing.F) {
	addSessions(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		backend, q := memfs.New(8<<20), server.NewQuota(1<<20, 5)
		if err := q.Recount(t.Context(), backend, "/"); err != nil {
			t.Fatal(err)
		}
		server.Serve(t.Context(), &script{Reader: bytes.NewReader(input)}, backend,
			&server.Options{Policy: server.Policy{Quota: q}})
		kept := usage(q)
		if found := recounted(t, q, backend); kept != found {
			t.Errorf("%v was kept, %v is there", kept, found)
		} else if found[0] > 1<<20 || found[1] > 5 {
			t.Errorf("%v is there", found)
		}
	})
}

// countPackets counts packets by their length fields.
func countPackets(b []byte) (n int) {
	for len(b) >= 4 {
		length := uint64(binary.BigEndian.Uint32(b))
		if length > wire.MaxPacket || uint64(len(b)) < 4+length {
			break
		}
		b = b[4+length:]
		n++
	}
	return n
}
