package server_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// eventBook records events.
type eventBook struct {
	mu     sync.Mutex
	events []server.Event
}

func (b *eventBook) note(e server.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// last returns the latest event.
func (b *eventBook) last() server.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events[len(b.events)-1]
}

func (b *eventBook) kinds() (kinds []server.EventKind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// TestEvents: each thing that a client does, or is refused, is one event.
func TestEvents(t *testing.T) {
	book := &eventBook{}
	c := start(t, memfs.New(0), &server.Options{Policy: server.Policy{Denied: []string{"remove"}},
		Events: book.note})
	c.put("/f", "text")
	c.get("/f")
	c.ok(wire.Rename{OldPath: "/f", NewPath: "/g"})
	times := wire.Attrs{Flags: wire.AttrACModTime, MTime: 1}
	c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/g", Attrs: times})
	want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/g"}), wire.PermissionDenied)
	want(t, c.status(wire.PathRequest{Type: wire.TypeStat, Path: "/a\x00b"}), wire.BadMessage)
	c.ok(wire.Write{Handle: c.open("/h", create), Data: []byte("half")})
	c.over()
	kinds := []server.EventKind{server.FileOpened, server.FileClosed, server.FileOpened,
		server.FileClosed, server.TreeChanged, server.TreeChanged, server.RequestDenied,
		server.BadRequest, server.FileOpened, server.FileAbandoned}
	if got := book.kinds(); !slices.Equal(got, kinds) {
		t.Fatalf("events %q, want %q", got, kinds)
	}
	opened, closed := book.events[0], book.events[1]
	if read, written := opened.Transfer.Moved(); opened.Transfer != closed.Transfer || read != 0 ||
		written != 4 {
		t.Errorf("the file that was written: %d read, %d written", read, written)
	}
	for i, e := range book.events {
		if e.Time.IsZero() || e.Protocol != "sftp" {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	up, down, rename, set := book.events[1], book.events[3], book.events[4], book.events[5]
	denied, half := book.events[6], book.events[9]
	if !up.Upload || up.Written != 4 || up.Path != "/f" ||
		up.Took <= 0 && runtime.GOOS != "windows" || // its clock is coarse
		down.Upload || down.Read != 4 {
		t.Errorf("transfers: %+v, %+v", up, down)
	}
	if rename.Request != "rename" || rename.Path != "/f" || rename.To != "/g" ||
		set.Request != "setstat" || set.Attrs == nil || set.Attrs.MTime != 1 {
		t.Errorf("changes: %+v, %+v", rename, set)
	}
	if denied.Request != "remove" || denied.By != "policy" || denied.Path != "/g" ||
		half.Err == nil || half.Written != 4 || half.Path != "/h" {
		t.Errorf("a denial and half a file: %+v, %+v", denied, half)
	}
}

// TestEventsOfWhatOpenChanges: a file that is made or emptied by being opened was uploaded, even if
// it was opened to be read.
func TestEventsOfWhatOpenChanges(t *testing.T) {
	for name, one := range map[string]struct {
		flags  uint32
		upload bool
	}{
		"/there": {wire.OpenRead | wire.OpenTruncate, true},
		"/new":   {wire.OpenRead | wire.OpenCreate, true},
		"/read":  {wire.OpenRead | wire.OpenCreate, false},
	} {
		book := &eventBook{}
		c := start(t, memfs.New(0), &server.Options{Events: book.note})
		if name != "/new" {
			c.put(name, "text")
		}
		h := c.open(name, one.flags)
		if !one.upload {
			want(t, string(c.do(wire.Read{Handle: h, Length: 9}).data(t)), "text")
		}
		c.close(h)
		if e := book.last(); e.Kind != server.FileClosed || e.Upload != one.upload {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// ownerless is a tree whose files keep their owner. It sets everything else, as a system does.
type ownerless struct{ *memfs.FS }

func (o ownerless) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	all := attrs.Flags
	attrs.Flags &^= wire.AttrUIDGID
	if err := o.FS.Setstat(ctx, name, attrs); err != nil || attrs.Flags == all {
		return err
	}
	return fs.ErrPermission
}

// TestEventsOfWhatWasSetInPart: a request that fails is reported for what it has set all the same,
// and for nothing else.
func TestEventsOfWhatWasSetInPart(t *testing.T) {
	book := &eventBook{}
	c := start(t, ownerless{memfs.New(0)}, &server.Options{Events: book.note})
	c.put("/f", "text")
	for _, one := range []struct {
		asked wire.Attrs
		set   uint32
	}{
		{wire.Attrs{Flags: wire.AttrUIDGID, UID: 1000}, 0},
		{wire.Attrs{Flags: wire.AttrUIDGID | wire.AttrSize, UID: 1000}, wire.AttrSize},
		{wire.Attrs{Flags: wire.AttrUIDGID | wire.AttrPermissions, UID: 1000, Permissions: 0o666},
			wire.AttrPermissions},
	} {
		before := len(book.kinds())
		want(t, c.status(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f", Attrs: one.asked}),
			wire.PermissionDenied)
		var set uint32
		for _, e := range book.events[before:] {
			if e.Kind == server.TreeChanged && e.Path == "/f" {
				set |= e.Attrs.Flags
			}
		}
		want(t, set, one.set)
	}
	want(t, c.stat("/f").Size, 0)
}

// keptFile is an open file that keeps its attributes.
type keptFile struct{ memFile }

func (keptFile) Setstat(wire.Attrs) error { return fs.ErrPermission }

// forgetful makes changes, but does not know.
type forgetful struct{ *memfs.FS }

func (f forgetful) Remove(ctx context.Context, name string) error {
	return server.Unsure(errors.Join(f.FS.Remove(ctx, name), io.ErrUnexpectedEOF))
}

// TestEventsOfUnsureChanges: a change that may have been made is reported, with the error, and one
// that was not made is not.
func TestEventsOfUnsureChanges(t *testing.T) {
	var events eventBook
	c := start(t, forgetful{memfs.New(0)}, &server.Options{Events: events.note})
	c.put("/f", "text")
	c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"})
	c.status(wire.PathRequest{Type: wire.TypeRmdir, Path: "/none"})
	c.over()
	var changes []server.Event
	for _, e := range events.events {
		if e.Kind == server.TreeChanged {
			changes = append(changes, e)
		}
	}
	if len(changes) != 1 || changes[0].Path != "/f" || changes[0].Request != "remove" ||
		!errors.Is(changes[0].Err, io.ErrUnexpectedEOF) {
		t.Errorf("reported: %+v", changes)
	}
}

// TestDenialsAfterFailedWrite: the failure of a write is reported once, and what else is denied on
// the handle is reported, too.
func TestDenialsAfterFailedWrite(t *testing.T) {
	book := &eventBook{}
	keeper := wrapping{memfs.New(0), func(f memFile) server.File { return keptFile{f} }}
	c := start(t, keeper, &server.Options{Events: book.note,
		Policy: server.Policy{MaxFileSize: 2}})
	source, h := c.open("/source", create|wire.OpenRead), c.open("/f", create)
	c.ok(wire.Write{Handle: source, Data: []byte("12")})
	before := len(book.kinds())
	write := wire.Write{Handle: h, Data: []byte("too long")}
	want(t, c.status(write), wire.Failure)
	want(t, c.status(write), wire.Failure)
	want(t, c.status(wire.CopyData{FromHandle: source, ToHandle: h}), wire.Failure)
	want(t, c.status(wire.Fsetstat{Handle: h,
		Attrs: wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o777}}), wire.PermissionDenied)
	var denied []string
	for _, e := range book.events[before:] {
		denied = append(denied, e.Request+" by "+e.By)
	}
	want(t, denied, []string{"write by limit", "fsetstat by backend"})
}

// TestEventsEndWithSession: whoever takes the events gets none after Serve has returned.
func TestEventsEndWithSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported, release := make(chan struct{}), make(chan struct{})
		c := start(t, memfs.New(0), &server.Options{Policy: server.Policy{ReadOnly: true},
			Events: func(server.Event) {
				close(reported)
				<-release
			}})
		c.ask(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"})
		<-reported
		c.cancel()
		synctest.Wait()
		select {
		case err := <-c.done:
			c.done <- err
			t.Errorf("Serve returned %v while a refusal was reported", err)
		default:
		}
		close(release)
	})
}

// TestEventsComeBeforeLimits: whoever counts refusals counts all of them, however few are logged.
func TestEventsComeBeforeLimits(t *testing.T) {
	lines, events := &logBook{}, &eventBook{}
	c := start(t, memfs.New(0), &server.Options{Policy: server.Policy{ReadOnly: true},
		Logger: slog.New(lines), Events: events.note})
	const times = 3000
	for range times {
		want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"}),
			wire.PermissionDenied)
	}
	c.over()
	want(t, len(events.kinds()), times)
	if n := lines.count(map[string]string{"": "request denied"}); n >= times/2 {
		t.Errorf("%d of %d refusals were logged", n, times)
	}
}
