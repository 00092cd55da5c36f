package server_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// endings is a tree in memory that records how files opened for writing ended.
type endings struct {
	*memfs.FS
	syncs error // what fsync answers
	mu    sync.Mutex
	seen  []string
}

func (e *endings) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := e.FS.Open(ctx, name, flags, attrs)
	if err != nil || flags&wire.OpenWrite == 0 {
		return file, err
	}
	return &endingFile{memFile: file.(memFile), e: e, name: name}, nil
}

type endingFile struct {
	memFile
	e    *endings
	name string
}

func (f *endingFile) end(how string) error {
	f.e.mu.Lock()
	defer f.e.mu.Unlock()
	f.e.seen = append(f.e.seen, how+" "+f.name)
	return f.memFile.Close()
}

func (f *endingFile) Sync() error    { return f.e.syncs }
func (f *endingFile) Close() error   { return f.end("close") }
func (f *endingFile) Abandon() error { return f.end("abandon") }

// broken is a tree whose files opened for writing lack something.
type broken struct {
	*endings
	lacks func(f *endingFile) server.File
}

func (b broken) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := b.endings.Open(ctx, name, flags, attrs)
	if f, ok := file.(*endingFile); ok {
		return b.lacks(f), err
	}
	return file, err
}

// statless cannot be described.
type statless struct{ *endingFile }

func (statless) Stat() (fs.FileInfo, error) { return nil, errors.New("the disk is broken") }

// TestOpenFails: a file that is open when OPEN fails is abandoned. If it was closed, the empty file
// would take the place of the old one.
func TestOpenFails(t *testing.T) {
	for name, one := range map[string]struct {
		lacks  func(f *endingFile) server.File
		policy server.Policy
		flags  uint32
	}{
		"without a size": {func(f *endingFile) server.File { return statless{f} },
			server.Policy{Quota: server.NewQuota(100, 0)}, create},
		"not writable": {func(f *endingFile) server.File {
			return struct {
				server.File
				server.FileAbandoner
			}{f, f}
		}, server.Policy{}, create},
		"not readable": {func(f *endingFile) server.File {
			return struct {
				server.File
				server.FileAbandoner
				io.WriterAt
			}{f, f, f}
		}, server.Policy{}, create | wire.OpenRead},
	} {
		t.Run(name, func(t *testing.T) {
			backend := broken{&endings{FS: memfs.New(0)}, one.lacks}
			view, err := server.NewView(backend, &one.policy)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := view.Open(t.Context(), "/f", one.flags, wire.Attrs{}); err == nil {
				t.Error("it was opened")
			}
			if want := []string{"abandon /f"}; !slices.Equal(backend.seen, want) {
				t.Errorf("the backend saw %q, want %q", backend.seen, want)
			}
		})
	}
}

// TestAbandonedFiles: only what the client closed, and all of whose writes went well, counts as
// uploaded.
func TestAbandonedFiles(t *testing.T) {
	write := func(h []byte, n int) message { return wire.Write{Handle: h, Data: make([]byte, n)} }
	shut := func(h []byte) message {
		return wire.HandleRequest{Type: wire.TypeClose, Handle: h}
	}
	quota := server.Policy{Quota: server.NewQuota(100, 0)}
	for _, one := range []struct {
		name   string
		policy server.Policy
		run    func(c *raw)
		ending string            // of the file, as the backend sees it
		line   map[string]string // of the log
	}{
		{"closed", quota, func(c *raw) { c.put("/f", "text") }, "close /f",
			map[string]string{"": "file closed", "transfer": "upload", "written": "4"}},
		{"no CLOSE", quota, func(c *raw) { c.ok(write(c.open("/f", create), 10)) }, "abandon /f",
			map[string]string{"": "file abandoned", "transfer": "upload", "written": "10",
				"error": "the session ended before CLOSE"}},
		{"cut within a packet", quota, func(c *raw) {
			h := c.open("/f", create)
			c.ok(write(h, 10))
			packet := write(h, 10).Append(nil, 99)
			c.send(packet[:len(packet)-1])
		}, "abandon /f", map[string]string{"": "file abandoned", "written": "10"}},
		{"given up", quota, func(c *raw) {
			h := c.open("/f", create)
			c.ok(write(h, 10))
			c.ok(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h})
			want(c.t, c.status(shut(h)), wire.Failure)
		}, "abandon /f", map[string]string{"": "file abandoned", "transfer": "upload",
			"written": "10", "error": "the client gave it up"}},
		{"given up after a write over the quota", quota, func(c *raw) {
			h := c.open("/f", create)
			want(c.t, c.status(write(h, 101)), wire.Failure)
			want(c.t, c.status(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h}), wire.Failure)
		}, "abandon /f", map[string]string{"": "file abandoned", "error": "quota exceeded"}},
		{"given up after writes that were not awaited", server.Policy{}, func(c *raw) {
			h := c.open("/f", create)
			for range 3 {
				c.send(write(h, 10).Append(nil, 7))
			}
			c.send(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h}.Append(nil, 8))
			for range 4 {
				want(c.t, c.receive().status(c.t).Code, wire.OK)
			}
		}, "abandon /f", map[string]string{"": "file abandoned", "written": "30"}},
		{"given up by who may not", server.Policy{Denied: []string{"abandon"}}, func(c *raw) {
			h := c.open("/f", create)
			want(c.t, c.status(wire.ExtendedHandle{Name: wire.ExtAbandon, Handle: h}),
				wire.PermissionDenied)
			c.ok(shut(h))
		}, "close /f", map[string]string{"": "file closed"}},
		{"a write over the quota", quota, func(c *raw) {
			h := c.open("/f", create)
			c.ok(write(h, 10))
			want(c.t, c.status(write(h, 101)), wire.Failure)
			want(c.t, c.status(shut(h)), wire.Failure)
		}, "abandon /f", map[string]string{"": "file abandoned", "written": "10",
			"error": "quota exceeded"}},
		{"a write that makes no sense", server.Policy{}, func(c *raw) {
			h := c.open("/f", create)
			c.ok(write(h, 10))
			cut := append([]byte{0, 0, 0, 8}, h...)
			want(c.t, c.cut(wire.TypeWrite, cut), wire.BadMessage)
			want(c.t, c.status(shut(h)), wire.BadMessage)
		}, "abandon /f", map[string]string{"": "file abandoned", "written": "10"}},
		{"a copy that is denied", server.Policy{Denied: []string{"copy-data"}}, func(c *raw) {
			h := c.open("/f", create|wire.OpenRead)
			c.ok(write(h, 10))
			want(c.t, c.status(wire.CopyData{FromHandle: h, Length: 5, ToHandle: h,
				ToOffset: 20}),
				wire.PermissionDenied)
			want(c.t, c.status(shut(h)), wire.PermissionDenied)
		}, "abandon /f", map[string]string{"": "file abandoned", "written": "10"}},
		{"a write to a file that is read", server.Policy{}, func(c *raw) {
			c.put("/f", "text")
			h := c.open("/f", wire.OpenRead)
			want(c.t, c.status(write(h, 10)), wire.Failure)
			c.close(h)
		}, "close /f", map[string]string{"": "file closed", "transfer": "download"}},
		{"a download to the end without CLOSE", server.Policy{}, func(c *raw) {
			c.put("/f", "text")
			h := c.open("/f", wire.OpenRead)
			c.do(wire.Read{Handle: h, Length: 8}).data(c.t)
			want(c.t, c.status(wire.Read{Handle: h, Offset: 4, Length: 8}), wire.EOF)
		}, "close /f", map[string]string{"": "file closed", "transfer": "download",
			"read": "4"}},
		{"a download without CLOSE", server.Policy{}, func(c *raw) {
			c.put("/f", "text")
			c.do(wire.Read{Handle: c.open("/f", wire.OpenRead), Length: 4}).data(c.t)
		}, "close /f", map[string]string{"": "file abandoned", "transfer": "download",
			"read": "4"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			backend, book := &endings{FS: memfs.New(0)}, &logBook{}
			c := start(t, backend, &server.Options{Policy: one.policy, Logger: slog.New(book)})
			one.run(c)
			c.over()
			if !slices.Equal(backend.seen, []string{one.ending}) {
				t.Errorf("the backend saw %q, want %q", backend.seen, one.ending)
			}
			if one.line["path"] = "/f"; book.count(one.line) != 1 {
				t.Errorf("no line with %v: %v", one.line, book.lines)
			}
			if one.line[""] == "file abandoned" && one.line["transfer"] != "download" &&
				book.count(map[string]string{"": "file closed"}) > 0 {
				t.Errorf("an abandoned file is logged as closed: %v", book.lines)
			}
		})
	}
}

// TestFailedSync: a file that cannot be flushed is not uploaded, one that need not be is.
func TestFailedSync(t *testing.T) {
	for ending, err := range map[string]error{"abandon /f": syscall.EIO, "close /f": syscall.EINVAL} {
		backend := &endings{FS: memfs.New(0), syncs: err}
		c := start(t, backend, nil)
		h := c.open("/f", create)
		c.ok(wire.Write{Handle: h, Data: []byte("text")})
		if c.status(wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h}) == wire.OK {
			t.Error("it was flushed")
		}
		c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
		if c.over(); !slices.Equal(backend.seen, []string{ending}) {
			t.Errorf("the backend saw %q, want %q", backend.seen, ending)
		}
	}
}

// cut sends a request of which the end is missing.
func (c *raw) cut(typ wire.Type, rest []byte) wire.Code {
	c.t.Helper()
	c.send(body(typ, 7, rest...))
	return c.receive().status(c.t).Code
}

// TestAbandonedFileIsClosed: a backend that cannot abandon files closes them.
func TestAbandonedFileIsClosed(t *testing.T) {
	g := newGated()
	c := start(t, g, nil)
	c.ok(wire.Write{Handle: c.open("/f", create), Data: []byte("text")})
	if c.over(); g.open.Load() != 0 {
		t.Error("the file is still open")
	}
	want(t, start(t, g, nil).get("/f"), "text")
}
