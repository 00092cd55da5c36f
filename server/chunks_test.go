package server_test

import (
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// TestListOfChunksIsBounded: a hole may have any length, and one request must not list all of it.
func TestListOfChunksIsBounded(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	c.put("/f", "x")
	c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f", Attrs: wire.Attrs{Flags: wire.AttrSize,
		Size: 1<<63 - 1}})
	h := c.open("/f", wire.OpenRead)
	p := c.do(wire.Chunks{Handle: h, Algorithms: "md5", Shortest: 4 << 10})
	var reply wire.ChunksReply
	if p.typ != wire.TypeExtendedReply || reply.Parse(p.body) != nil {
		t.Fatalf("got %v", p.describe(t))
	}
	want(t, reply.Len(), 2048)
	want(t, reply.End, false)
	c.close(h)
}

func TestChunksCanBeDenied(t *testing.T) {
	c := start(t, memfs.New(0), &server.Options{Policy: server.Policy{Denied: []string{"chunks"}}})
	if version, offered := c.offers[wire.ExtChunks]; offered {
		t.Errorf("what is denied is offered as %q", version)
	}
	c.put("/f", "x")
	want(t, c.status(wire.Chunks{Handle: c.open("/f", wire.OpenRead), Algorithms: "md5",
		Shortest: 4 << 10}), wire.PermissionDenied)
}
