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

// appearing is a file that appears when it is closed.
type appearing struct{ *endingFile }

func (appearing) Replaces() (fs.FileInfo, error) { return nil, fs.ErrNotExist }

func (f appearing) End(how server.Ending) (fs.FileInfo, error) {
	if how == server.Closed {
		return nil, f.Close()
	}
	return nil, f.Abandon()
}

// TestGateWithoutAnEnd: a gate that wants to hear no more returns no function.
func TestGateWithoutAnEnd(t *testing.T) {
	asked := make(chan string, 2)
	c := start(t, memfs.New(0), &server.Options{Gate: func(e server.Event) (func(error), error) {
		asked <- e.Path
		return nil, nil
	}})
	c.put("/f", "text")
	c.ok(wire.Rename{OldPath: "/f", NewPath: "/g"})
	if file, rename := <-asked, <-asked; file != "/f" || rename != "/f" {
		t.Errorf("it was asked about %s and %s", file, rename)
	}
}

// TestGateOfFilesRead: a file that was opened for writing and only read is a download, of which no
// gate is asked, unless closing it changes something all the same.
func TestGateOfFilesRead(t *testing.T) {
	whole := func(f *endingFile) server.File { return f }
	hidden := func(f *endingFile) server.File { return appearing{f} }
	for name, one := range map[string]struct {
		kind   func(f *endingFile) server.File
		attrs  wire.Attrs // that are set before
		policy server.Policy
		asked  int
	}{
		"read":              {whole, wire.Attrs{}, server.Policy{}, 0},
		"times set":         {whole, wire.Attrs{Flags: wire.AttrACModTime}, server.Policy{}, 0},
		"cut":               {whole, wire.Attrs{Flags: wire.AttrSize, Size: 2}, server.Policy{}, 1},
		"written by others": {hidden, wire.Attrs{}, server.Policy{}, 1},
		"written by others, under limits": {hidden, wire.Attrs{},
			server.Policy{Quota: server.NewQuota(100, 0), MaxFileSize: 100}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			backend := broken{&endings{FS: memfs.New(0)}, one.kind}
			start(t, backend.FS, nil).put("/f", "text")
			asked := 0
			c := start(t, backend, &server.Options{Policy: one.policy,
				Gate: func(e server.Event) (func(error), error) {
					asked++
					if !e.Upload {
						t.Errorf("the gate is asked about %+v", e)
					}
					return nil, errGate
				}})
			h := c.open("/f", wire.OpenRead|wire.OpenWrite)
			if one.attrs.Flags != 0 {
				c.ok(wire.Fsetstat{Handle: h, Attrs: one.attrs})
			}
			c.do(wire.Read{Handle: h, Length: 4}).data(t)
			c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
			c.over()
			wanted := []string{"close /f", "abandon /f"}[one.asked:]
			if asked != one.asked || !slices.Equal(backend.seen, wanted[:1]) {
				t.Errorf("the gate was asked %d times, and the backend saw %q", asked, backend.seen)
			}
		})
	}
}
