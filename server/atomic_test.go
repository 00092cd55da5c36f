package server_test

import (
	"testing"

	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// TestOpenBeforeClose: a file appears when it is closed, and a mount's next OPEN may come before
// that CLOSE. It waits for it, and does not hold it up.
func TestOpenBeforeClose(t *testing.T) {
	c := start(t, serving(t, osfs.NewAtomic), nil)
	h := c.open("/f", create)
	c.ok(wire.Write{Handle: h, Data: []byte("text")})
	open := c.ask(wire.Open{Path: "/f", Flags: wire.OpenRead})
	c.ask(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
	for range 2 {
		if p := c.receive(); p.id != open {
			want(t, p.status(t).Code, wire.OK)
		} else if p.typ != wire.TypeHandle {
			t.Errorf("OPEN was answered by %v", p.describe(t))
		}
	}
}
