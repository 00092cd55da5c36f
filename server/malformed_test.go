package server_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// body makes a packet of any type with any body.
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
	// An impossible count of attributes.
	attrs := []byte{0, 0, 0, 2, '/', 'f', 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	c.send(body(wire.TypeSetstat, 1, attrs...))
	want(t, c.receive().status(t).Code, wire.BadMessage)
	for _, name := range []string{wire.ExtCopyData, wire.ExtCheckFileHandle, wire.ExtCheckFileName,
		wire.ExtLsetstat,
		wire.ExtPosixRename, wire.ExtHardlink, wire.ExtFsync, wire.ExtStatVFS, wire.ExtFstatVFS,
		wire.ExtExpandPath} {
		want(t, c.status(wire.Extended{Name: name, Payload: []byte{0, 0, 1}}), wire.BadMessage)
	}
	want(t, c.get("/f"), "kept")
}

// TestCutPackets ends the stream at every point of a conversation.
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
