package sftptest

import (
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/wire"
)

func TestScriptedServesAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(t, Script{})
		c := NewRaw(server.Dial(LinkConfig{}))
		if v, err := c.Init(); err != nil || v.Version != 3 || len(v.Extensions) != 11 {
			t.Fatalf("Init returned %+v, %v", v, err)
		}
		r, err := c.Ask(wire.Open{Path: "/a", Flags: wire.OpenRead | wire.OpenWrite | wire.OpenCreate})
		var h wire.Handle
		if err != nil || r.Type != wire.TypeHandle || h.Parse(r.Body) != nil {
			t.Fatalf("OPEN: %v, %v", r, err)
		}
		if r, err := c.Ask(wire.Write{Handle: h.Handle, Offset: 2, Data: []byte("hello")}); err != nil || r.String() != "STATUS id=2 success" {
			t.Fatalf("WRITE: %v, %v", r, err)
		}
		r, err = c.Ask(wire.Read{Handle: h.Handle, Offset: 1, Length: 100})
		var d wire.Data
		if err != nil || d.Parse(r.Body) != nil || string(d.Data) != "\x00hello" {
			t.Fatalf("READ: %v, %q, %v", r, d.Data, err)
		}
		if got := server.Requests(wire.TypeRead); len(got) != 1 || got[0].Path != "/a" || got[0].Offset != 1 || got[0].Length != 100 {
			t.Errorf("recorded %v", got)
		}
		if n := server.OpenHandles(); n != 1 {
			t.Errorf("%d open handles", n)
		}
		c.Close()
	})
}
