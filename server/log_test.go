package server_test

import (
	"context"
	"io/fs"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// logBook records what is logged.
type logBook struct {
	mu    sync.Mutex
	lines []map[string]string
}

func (b *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b *logBook) WithGroup(string) slog.Handler            { return b }

func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	line := map[string]string{"": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
	return nil
}

// count counts the lines with all these fields; "" is the message.
func (b *logBook) count(fields map[string]string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.lines {
		all := true
		for key, value := range fields {
			all = all && line[key] == value
		}
		if all {
			n++
		}
	}
	return n
}

// TestFaultsAreLogged: whoever runs the server learns that the machine has a problem, but not by a
// line for each request that meets it.
func TestFaultsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &faulty{FS: memfs.New(0)}
		book := &logBook{}
		c := start(t, backend, &server.Options{Logger: slog.New(book)})
		for _, fault := range []error{syscall.EMFILE, syscall.EIO, syscall.ENOSPC} {
			backend.fault = &fs.PathError{Op: "openat", Path: "/srv/f", Err: fault}
			want(t, c.status(wire.Open{Path: "/f", Flags: wire.OpenRead}), wire.Failure)
			if n := book.count(map[string]string{"": "request failed", "request": "open",
				"path": "/f", "error": backend.fault.Error()}); n != 1 {
				t.Errorf("%d lines about %v; the log has %v", n, fault, book.lines)
			}
		}
		for range 100 {
			want(t, c.status(wire.Open{Path: "/f", Flags: wire.OpenRead}), wire.Failure)
		}
		if n := book.count(map[string]string{"": "request failed"}); n != 5 {
			t.Errorf("%d lines about faults at once, want 5", n)
		}
		time.Sleep(time.Minute)
		want(t, c.status(wire.Open{Path: "/f", Flags: wire.OpenRead}), wire.Failure)
		if n := book.count(map[string]string{"": "request failed", "omitted": "98"}); n != 1 {
			t.Errorf("no line says what was omitted: %v", book.lines)
		}
		backend.fault = &fs.PathError{Op: "openat", Path: "/srv/f", Err: syscall.EEXIST}
		time.Sleep(time.Hour)
		want(t, c.status(wire.Open{Path: "/f", Flags: wire.OpenRead}), wire.Failure)
		if n := book.count(map[string]string{"": "request failed"}); n != 6 {
			t.Errorf("a client's own mistake counts as a fault: %v", book.lines)
		}
		c.over()
	})
}

// faulty fails to open files.
type faulty struct {
	server.FS
	fault error
}

func (f *faulty) Open(context.Context, string, uint32, wire.Attrs) (server.File, error) {
	return nil, f.fault
}

// TestRefusalsAreLogged: the log says which request, which path, and what refused it.
func TestRefusalsAreLogged(t *testing.T) {
	backend := memfs.New(0)
	start(t, backend, nil).put("/f", "text")
	policies := map[string]server.Policy{
		"read-only": {ReadOnly: true},
		"denied":    {Denied: []string{"remove", "write"}},
		"quota":     {Quota: server.NewQuota(10, 2)},
		"none":      {},
	}
	h := func(c *raw) []byte { return c.open("/f", wire.OpenRead) }
	for _, one := range []struct {
		policy string
		ask    func(c *raw) message
		want   map[string]string
	}{
		{"read-only", func(*raw) message {
			return wire.PathRequest{Type: wire.TypeRemove,
				Path: "/f"}
		},
			map[string]string{"": "request denied", "by": "policy", "request": "remove",
				"path": "/f", "error": "the server is read-only"}},
		{"read-only", func(*raw) message { return wire.Open{Path: "/f", Flags: wire.OpenWrite} },
			map[string]string{"": "request denied", "by": "policy", "request": "open",
				"path": "/f"}},
		{"read-only", func(c *raw) message { return wire.Write{Handle: h(c), Data: []byte("x")} },
			map[string]string{"": "request denied", "by": "policy", "request": "write",
				"path": "/f"}},
		{"read-only", func(*raw) message { return wire.PosixRename{OldPath: "/f", NewPath: "/g"} },
			map[string]string{"": "request denied", "request": "posix-rename", "path": "/f",
				"to": "/g"}},
		{"denied", func(*raw) message {
			return wire.PathRequest{Type: wire.TypeRemove,
				Path: "/f"}
		},
			map[string]string{"": "request denied", "by": "policy", "request": "remove",
				"error": "the operation is not allowed here"}},
		{"quota", func(c *raw) message {
			return wire.Write{Handle: c.open("/f", wire.OpenWrite),
				Data: make([]byte, 100)}
		},
			map[string]string{"": "request denied", "by": "quota", "request": "write",
				"path": "/f"}},
		{"none", func(*raw) message {
			return wire.HandleRequest{Type: wire.TypeClose,
				Handle: []byte{9, 9, 9, 9}}
		},
			map[string]string{"": "bad request", "request": "close", "error": "invalid handle"}},
		{"none", func(*raw) message {
			return wire.PathRequest{Type: wire.TypeStat,
				Path: "/a\x00b"}
		},
			map[string]string{"": "bad request", "request": "stat", "error": "NUL in a file name"}},
	} {
		book := &logBook{}
		c := start(t, backend, &server.Options{Policy: policies[one.policy],
			Logger: slog.New(book)})
		if code := c.status(one.ask(c)); code == wire.OK {
			t.Errorf("%v went well", one.want)
		}
		c.over()
		if n := book.count(one.want); n != 1 {
			t.Errorf("%s: %d lines with %v; the log has %v", one.policy, n, one.want, book.lines)
		}
	}
}

// TestRefusalsDoNotFloodTheLog: a client may be refused any number of times without filling the
// disk.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &logBook{}
		c := start(t, memfs.New(0), &server.Options{Policy: server.Policy{ReadOnly: true},
			Logger: slog.New(book)})
		refuse := func(times int) {
			for range times {
				want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"}),
					wire.PermissionDenied)
			}
		}
		denied := map[string]string{"": "request denied"}
		refuse(5000)
		want(t, book.count(denied), 100)
		time.Sleep(3 * time.Second)
		refuse(5000)
		want(t, book.count(denied), 103)
		want(t, book.count(map[string]string{"": "request denied", "omitted": "4900"}), 1)
		c.over()
		want(t, book.count(map[string]string{"": "more requests refused", "omitted": "4997"}), 1)

		// Writes that fail because an earlier one failed are not logged again.
		c = start(t, memfs.New(0), &server.Options{Policy: server.Policy{Quota: server.NewQuota(10,
			0)}, Logger: slog.New(book)})
		h := c.open("/f", create)
		for range 10 {
			want(t, c.status(wire.Write{Handle: h, Offset: 10, Data: []byte("x")}), wire.Failure)
		}
		want(t, book.count(map[string]string{"": "request denied", "by": "quota"}), 1)
	})
}

// TestChangesAreLogged: each change to the tree is logged, as sftp-server does at INFO, and so is
// each transfer.
func TestChangesAreLogged(t *testing.T) {
	book := &logBook{}
	c := start(t, memfs.New(0), &server.Options{Logger: slog.New(book)})
	c.put("/f", "text")
	c.get("/f")
	h := c.open("/f", wire.OpenWrite)
	for _, m := range []message{
		wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d", Attrs: wire.Attrs{
			Flags: wire.AttrPermissions, Permissions: 0o750}},
		wire.Rename{OldPath: "/f", NewPath: "/g"},
		wire.PosixRename{OldPath: "/g", NewPath: "/h"},
		wire.Hardlink{OldPath: "/h", NewPath: "/i"},
		wire.Symlink{First: "h", Second: "/l"},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/h", Attrs: wire.Attrs{
			Flags: wire.AttrPermissions, Permissions: 0o600}},
		wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrPermissions,
			Permissions: 0o644}},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/h", Attrs: wire.Attrs{
			Flags: wire.AttrACModTime}},
		wire.PathRequest{Type: wire.TypeRemove, Path: "/i"},
		wire.PathRequest{Type: wire.TypeRmdir, Path: "/d"},
	} {
		c.ok(m)
	}
	c.close(h)
	want(t, c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/none"}), wire.NoSuchFile)
	for _, line := range []map[string]string{
		{"request": "mkdir", "path": "/d", "mode": "0750"},
		{"request": "rename", "path": "/f", "to": "/g"},
		{"request": "posix-rename", "path": "/g", "to": "/h"},
		{"request": "hardlink", "path": "/h", "to": "/i"},
		{"request": "symlink", "path": "/l", "to": "h"},
		{"request": "setstat", "path": "/h", "mode": "0600"},
		{"request": "fsetstat", "path": "/f", "mode": "0644"},
		{"request": "remove", "path": "/i"},
		{"request": "rmdir", "path": "/d"},
	} {
		line[""] = "tree changed"
		if n := book.count(line); n != 1 {
			t.Errorf("%d lines with %v", n, line)
		}
	}
	want(t, book.count(map[string]string{"": "tree changed"}), 9)
	for _, transfer := range []string{"upload", "download"} {
		line := map[string]string{"": "file closed", "transfer": transfer, "path": "/f"}
		if n := book.count(line); n == 0 {
			t.Errorf("no line with %v", line)
		}
	}
}
