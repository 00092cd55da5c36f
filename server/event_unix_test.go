//go:build unix

package server_test

import (
	"slices"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// TestPathsOfEvents: a file has one path in events, however its client spells it, as OpenSSH's scp
// does with ./f. What .. and the text of a link mean depends on other files.
func TestPathsOfEvents(t *testing.T) {
	book := &eventBook{}
	c := start(t, serving(t, osfs.New), &server.Options{Events: book.note})
	c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "./d/"})
	c.put("./d//f", "text")
	c.ok(wire.Rename{OldPath: "/d/./f", NewPath: "d/../g"})
	c.ok(wire.Symlink{First: ".//g", Second: "//link"})
	want(t, c.status(wire.PathRequest{Type: wire.TypeRmdir, Path: "/./"}), wire.BadMessage)
	c.over()
	var got []string
	for _, e := range book.events {
		got = append(got, e.Path+" "+e.To)
	}
	paths := []string{"/d ", "/d/f ", "/d/f ", "/d/f /d/../g", "/link .//g", "/ "}
	if !slices.Equal(got, paths) {
		t.Errorf("paths %q, want %q", got, paths)
	}
}
