package server_test

import (
	"testing"

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
