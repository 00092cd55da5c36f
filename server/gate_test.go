package server_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// gateBook records what a gate is asked and told, and refuses what has "no" in its name.
type gateBook struct {
	mu   sync.Mutex
	said []string
}

var errGate = &server.StatusError{Code: wire.PermissionDenied, Message: "the gate is shut"}

func (b *gateBook) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, text)
}

func (b *gateBook) ask(e server.Event) (func(error), error) {
	text := strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Request, e.Path, " ", e.To))
	if e.Time.IsZero() || e.Protocol != "sftp" {
		text += " is not complete"
	}
	b.note(text)
	if strings.Contains(e.Path+e.To, "no") {
		return nil, errGate
	}
	return func(err error) { b.note(fmt.Sprint(e.Path, ": ", err != nil)) }, nil
}

// TestGate: a gate is asked before a change of names, and before a file that was written is closed,
// and told what came of it. What it refuses does not happen.
func TestGate(t *testing.T) {
	backend, gate, events := &endings{FS: memfs.New(0)}, &gateBook{}, &eventBook{}
	c := start(t, backend, &server.Options{Gate: gate.ask, Events: events.note,
		Policy: server.Policy{Denied: []string{"rmdir"}}})
	c.put("/f", "text")
	c.get("/f")
	c.ok(wire.Rename{OldPath: "/f", NewPath: "/g"})
	want(t, c.status(wire.Rename{OldPath: "/f", NewPath: "/h"}), wire.NoSuchFile)
	times := wire.Attrs{Flags: wire.AttrACModTime, MTime: 1}
	c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/g", Attrs: times})
	want(t, c.status(wire.PathRequest{Type: wire.TypeRmdir, Path: "/g"}), wire.PermissionDenied)
	want(t, c.status(wire.Rename{OldPath: "/g", NewPath: "/no"}), wire.PermissionDenied)
	h := c.open("/no", create)
	c.ok(wire.Write{Handle: h, Data: []byte("text")})
	want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h}), wire.PermissionDenied)
	c.ok(wire.Write{Handle: c.open("/half", create), Data: []byte("half")})
	c.over()
	if wanted := []string{"file closed /f", "/f: false", "tree changed rename/f /g", "/f: false",
		"tree changed rename/f /h", "/f: true", "tree changed rename/g /no",
		"file closed /no"}; !slices.Equal(gate.said, wanted) {
		t.Errorf("the gate: %q, want %q", gate.said, wanted)
	}
	if wanted := []string{"close /f", "abandon /no", "abandon /half"}; !slices.Equal(backend.seen,
		wanted) {
		t.Errorf("the backend: %q, want %q", backend.seen, wanted)
	}
	for _, e := range events.events {
		if e.Path == "/no" && e.Kind == server.FileClosed || e.To == "/no" &&
			e.Kind == server.TreeChanged {
			t.Errorf("what was refused is reported: %+v", e)
		}
		if e.Path == "/no" && e.Kind == server.FileAbandoned && !errors.Is(e.Err, errGate) {
			t.Errorf("abandoned for %v", e.Err)
		}
	}
	if _, err := backend.Stat(t.Context(), "/g"); errors.Is(err, fs.ErrNotExist) {
		t.Error("the refused rename was made")
	}
}
