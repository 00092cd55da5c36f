package server_test

import (
	"testing"

	"github.com/usftp/usftp/server"
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

// TestUploadsOfferOfFolders: of several folders, all must be such for the server to say that
// temporary names are not needed.
func TestUploadsOfferOfFolders(t *testing.T) {
	for denied, offered := range map[string]bool{"": true, "uploads": false, "abandon": false} {
		policy := server.Policy{}
		if denied != "" {
			policy.Denied = []string{denied}
		}
		tree, err := server.NewFolders(
			server.Folder{Path: "/", FS: serving(t, osfs.NewAtomic)},
			server.Folder{Path: "/in", FS: serving(t, osfs.NewAtomic), Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		c := start(t, tree, nil)
		asked := c.status(wire.ExtendedPath{Name: wire.ExtUploads, Path: "/in/f"})
		if (c.offers[wire.ExtUploads] == "1") != offered || (asked == wire.NoSuchFile) != offered {
			t.Errorf("without %q: offered as %q, answered with %v", denied, c.offers[wire.ExtUploads],
				asked)
		}
	}
}

// TestUploadsOffer: only where files appear when they are closed, and can be given up, does the
// server say that temporary names are not needed.
func TestUploadsOffer(t *testing.T) {
	for name, test := range map[string]struct {
		open    func(dir string) (*osfs.FS, error)
		policy  server.Policy
		offered bool
	}{
		"atomic":            {osfs.NewAtomic, server.Policy{}, true},
		"in place":          {osfs.New, server.Policy{}, false},
		"denied":            {osfs.NewAtomic, server.Policy{Denied: []string{"uploads"}}, false},
		"without giving up": {osfs.NewAtomic, server.Policy{Denied: []string{"abandon"}}, false},
		"not on the list":   {osfs.NewAtomic, server.Policy{Allowed: []string{"open", "abandon"}}, false},
		"read only":         {osfs.NewAtomic, server.Policy{ReadOnly: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, serving(t, test.open), &server.Options{Policy: test.policy})
			if c.offers[wire.ExtUploads] == "1" != test.offered {
				t.Errorf("offered as %q", c.offers[wire.ExtUploads])
			}
			asked := c.status(wire.ExtendedPath{Name: wire.ExtUploads, Path: "/f"})
			if (asked == wire.NoSuchFile) != test.offered {
				t.Errorf("the request is answered with %v", asked)
			}
		})
	}
}
