package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// bare can do nothing but what it must.
type bare struct{}

func (bare) Stat(context.Context, string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

func TestBareBackend(t *testing.T) {
	c := start(t, bare{}, nil)
	for _, m := range []message{
		wire.Open{Path: "/f", Flags: wire.OpenRead},
		wire.PathRequest{Type: wire.TypeOpendir, Path: "/"},
		wire.PathRequest{Type: wire.TypeReadlink, Path: "/f"},
		wire.PathRequest{Type: wire.TypeRemove, Path: "/f"},
		wire.PathRequest{Type: wire.TypeRmdir, Path: "/f"},
		wire.PathAttrs{Type: wire.TypeMkdir, Path: "/f"},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f"},
		wire.Rename{OldPath: "/f", NewPath: "/g"},
		wire.Symlink{First: "f", Second: "/g"},
		wire.PosixRename{OldPath: "/f", NewPath: "/g"},
		wire.Hardlink{OldPath: "/f", NewPath: "/g"},
		wire.Lsetstat{Path: "/f"},
		wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/"},
		wire.UsersGroupsByID{UIDs: []uint32{0}},
		wire.Extended{Name: "nobody@example.com"},
		wire.HandleRequest{Type: 99},
	} {
		want(t, c.status(m), wire.OpUnsupported)
	}
	want(t, c.status(wire.PathRequest{Type: wire.TypeLstat, Path: "/f"}), wire.NoSuchFile)
	want(t, c.do(wire.PathRequest{Type: wire.TypeRealpath, Path: "a/.."}).names(t)[0].Filename, "/")
	want(t, c.offers, map[string]string{wire.ExtLimits: "1", wire.ExtExpandPath: "1",
		wire.ExtHomeDirectory: "1"})
}

// lyingInfo is what a careless backend might list.
type lyingInfo struct {
	fs.FileInfo
	name string
}

func (i lyingInfo) Name() string { return i.name }

// careless answers what no backend should.
type careless struct{ info fs.FileInfo }

func (b careless) Stat(context.Context, string) (fs.FileInfo, error) { return b.info, nil }

func (b careless) Open(context.Context, string, uint32, wire.Attrs) (server.File, error) {
	return carelessFile{}, nil
}

func (b careless) Readlink(context.Context, string) (string, error) {
	return strings.Repeat("x", 1<<20), nil
}

func (b careless) List(context.Context, string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		for _, name := range []string{".", "..", "", "a/b", "a\x00b", strings.Repeat("n", 1<<20),
			"good"} {
			if !yield(lyingInfo{b.info, name}, nil) {
				return
			}
		}
		yield(nil, errors.New("the listing\nfailed"))
	}
}

func (b careless) OwnerNames(context.Context, []uint32,
	[]uint32) (users, groups []string, err error) {
	return []string{strings.Repeat("u", 1<<20)}, nil, nil
}

type carelessFile struct{}

func (carelessFile) Close() error {
	return errors.New(strings.Repeat("long ", 1000))
}
func (carelessFile) ReadAt([]byte, int64) (int, error)      { return 0, nil }
func (carelessFile) WriteAt(p []byte, _ int64) (int, error) { return len(p) / 2, nil }

func TestCarelessBackend(t *testing.T) {
	info, err := memfs.New(0).Stat(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, careless{info: info}, nil)
	h := c.do(wire.PathRequest{Type: wire.TypeOpendir, Path: "/"}).handle(t)
	names := c.do(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}).names(t)
	if len(names) != 1 || names[0].Filename != "good" {
		t.Errorf("listed %d names", len(names))
	}
	want(t, c.status(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}), wire.Failure)
	want(t, c.status(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}), wire.EOF)
	want(t, c.status(wire.PathRequest{Type: wire.TypeReadlink, Path: "/l"}), wire.BadMessage)
	want(t, c.do(wire.UsersGroupsByID{UIDs: []uint32{1}}).typ, wire.TypeExtendedReply)
	h = c.open("/f", wire.OpenRead|wire.OpenWrite)
	want(t, c.status(wire.Read{Handle: h, Length: 10}), wire.Failure)
	want(t, c.status(wire.Write{Handle: h, Data: []byte("0123456789")}), wire.Failure)
	want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h}), wire.Failure)
}

// body makes a packet of a type with any body.
func body(typ wire.Type, id uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(1+4+len(body)))
	b = append(b, byte(typ))
	b = binary.BigEndian.AppendUint32(b, id)
	return append(b, body...)
}

func TestBadBodies(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	c.put("/f", "kept")
	id := uint32(1000)
	for typ := wire.TypeOpen; typ <= wire.TypeSymlink; typ++ {
		for _, bytes := range [][]byte{nil, {0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 9, 'x'},
			{0x80, 0, 0, 0, 1, 2, 3, 4}} {
			id++
			c.send(body(typ, id, bytes...))
			p := c.receive()
			if s := p.status(t); p.id != id || s.Code != wire.BadMessage {
				t.Errorf("%v with the body %x: reply %d, %v", typ, bytes, p.id, s.Code)
			}
		}
	}
	// A count of attributes that cannot be there.
	attrs := []byte{0, 0, 0, 2, '/', 'f', 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	c.send(body(wire.TypeSetstat, 1, attrs...))
	want(t, c.receive().status(t).Code, wire.BadMessage)
	for _, name := range []string{wire.ExtCopyData, wire.ExtCheckFileHandle, wire.ExtCheckFileName,
		wire.ExtLsetstat,
		wire.ExtPosixRename, wire.ExtHardlink, wire.ExtFsync, wire.ExtStatVFS, wire.ExtFstatVFS, wire.ExtExpandPath} {
		want(t, c.status(wire.Extended{Name: name, Payload: []byte{0, 0, 1}}), wire.BadMessage)
	}
	want(t, c.get("/f"), "kept")
}

// TestCutPackets ends the stream at every place in a conversation.
func TestCutPackets(t *testing.T) {
	whole := wire.Init{Version: 3}.Append(nil)
	boundaries := map[int]bool{0: true, len(whole): true}
	for _, m := range []message{
		wire.Open{Path: "/f", Flags: create},
		wire.Write{Handle: []byte{0, 1, 0, 0}, Data: []byte("data")},
		wire.Read{Handle: []byte{0, 1, 0, 0}, Length: 4},
		wire.Fsetstat{Handle: []byte{0, 1, 0, 0},
			Attrs: wire.Attrs{Flags: wire.AttrACModTime, ATime: 1, MTime: 1}},
		wire.CopyData{FromHandle: []byte{0, 1, 0, 0}, ToHandle: []byte{0, 1, 0, 0}, ToOffset: 100},
		wire.CheckFile{Name: wire.ExtCheckFileName, Target: []byte("/f"), Algorithms: "sha256"},
		wire.Symlink{First: "f", Second: "/l"},
		wire.PathRequest{Type: wire.TypeOpendir, Path: "/"},
		wire.PosixRename{OldPath: "/l", NewPath: "/m"},
		wire.UsersGroupsByID{UIDs: []uint32{0}, GIDs: []uint32{0}},
		wire.HandleRequest{Type: wire.TypeClose, Handle: []byte{0, 1, 0, 0}},
	} {
		whole = m.Append(whole, 1)
		boundaries[len(whole)] = true
	}
	for end := range len(whole) + 1 {
		g := newGated()
		err := server.Serve(t.Context(), &script{Reader: bytes.NewReader(whole[:end])}, g, nil)
		if boundaries[end] != (err == nil) {
			t.Errorf("cut after %d of %d bytes: %v", end, len(whole), err)
		}
		if n := g.open.Load(); n != 0 {
			t.Errorf("cut after %d bytes: %d files are open", end, n)
		}
	}
}

func TestBadFrames(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"empty packet":     {0, 0, 0, 0},
		"longest there is": {0xff, 0xff, 0xff, 0xff},
		"one too long":     {0, 4, 0, 1},
		"no request id":    {0, 0, 0, 3, byte(wire.TypeStat), 0, 0},
		"a second INIT":    wire.Init{Version: 3}.Append(nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, memfs.New(0), nil)
				c.send(bytes)
				if _, err := c.tryReceive(); err != errEnded {
					t.Errorf("the session goes on: %v", err)
				}
				err := <-c.done
				c.done <- err
				if err == nil {
					t.Error("Serve says that all was well")
				}
			})
		})
	}
	for name, bytes := range map[string][]byte{
		"a request first": stat("/").Append(nil, 1),
		"HTTP":            []byte("GET / HTTP/1.1\r\n\r\n"),
		"long INIT":       append([]byte{0, 4, 0, 0, 1}, make([]byte, 1<<18)...),
	} {
		t.Run(name, func(t *testing.T) {
			c := startSilent(t, memfs.New(0), nil)
			go c.conn.Write(bytes)
			if _, err := c.tryReceive(); err == nil {
				t.Error("the session goes on")
			}
			err := <-c.done
			c.done <- err
			if err == nil {
				t.Error("Serve says that all was well")
			}
		})
	}
}
