package server_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// TestDiskThatFills has one client fill a disk on which another has files: the writer gets an
// error, at once and for good, and the other client continues.
func TestDiskThatFills(t *testing.T) {
	testenv.Mounted(t, "size=2m", fillDisk)
}

func fillDisk(t *testing.T, dir string) {
	const size = 2 << 20
	backend, err := osfs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	book := &logBook{}
	bystander := start(t, backend, nil)
	bystander.put("/kept", "what was there before")
	c := start(t, backend, &server.Options{Logger: slog.New(book)})
	from := c.open("/kept", wire.OpenRead)
	h, copied := c.open("/big", create), c.open("/copied", create|wire.OpenRead)
	offset := uint64(0)
	for ; offset <= size; offset += wire.MaxData {
		s := c.do(wire.Write{Handle: h, Offset: offset, Data: make([]byte, wire.MaxData)}).status(t)
		if s.Code == wire.OK {
			continue
		}
		want(t, s, wire.Status{Code: wire.Failure, Message: "no space left on device"})
		break
	}
	if offset > size {
		t.Fatalf("%d bytes went onto a disk of %d", offset, size)
	}
	// overwriting existing data
	want(t, c.status(wire.Write{Handle: h, Data: []byte("fits")}), wire.Failure)
	want(t, c.status(wire.ExtendedHandle{Name: wire.ExtFsync, Handle: h}), wire.Failure)
	// What is left of the disk was taken by the failed write, or is less than a page.
	want(t, c.status(wire.CopyData{FromHandle: from, ToHandle: copied, ToOffset: 1 << 20}),
		wire.Failure)
	want(t, c.status(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/kept",
		Attrs: wire.Attrs{Flags: wire.AttrACModTime}}), wire.OK)
	want(t, bystander.get("/kept"), "what was there before")
	want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: copied}), wire.Failure)
	want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h}), wire.Failure)
	for _, path := range []string{"/big", "/copied"} {
		if n := book.count(map[string]string{"": "file abandoned", "path": path}); n != 1 {
			t.Errorf("%d lines say that %s was abandoned: %v", n, path, book.lines)
		}
	}
	bystander.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/big"})
	bystander.put("/kept", "there is room again")
	want(t, c.get("/kept"), "there is room again")
	text, err := os.ReadFile(filepath.Join(dir, "kept"))
	if err != nil || string(text) != "there is room again" {
		t.Errorf("%q, %v", text, err)
	}
}
