package server_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// bare implements only what it must.
type bare struct{}

func (bare) Stat(context.Context, string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

func TestBareBackend(t *testing.T) {
	c := start(t, bare{}, nil)
	for _, m := range []message{
		wire.Open{Path: "/f", Flags: wire.OpenRead},
		wire.PathRequest{Type: wire.TypeOpendir, Path: "/"},
		wire.PathRequest{Type: wire.TypeReadlink, Path: "/f"},
		wire.PathRequest{Type: wire.TypeRemove, Path: "/f"},
		wire.PathRequest{Type: wire.TypeRmdir, Path: "/f"},
		wire.PathAttrs{Type: wire.TypeMkdir, Path: "/f"},
		wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f"},
		wire.Rename{OldPath: "/f", NewPath: "/g"},
		wire.Symlink{First: "f", Second: "/g"},
		wire.PosixRename{OldPath: "/f", NewPath: "/g"},
		wire.Hardlink{OldPath: "/f", NewPath: "/g"},
		wire.Lsetstat{Path: "/f"},
		wire.ExtendedPath{Name: wire.ExtStatVFS, Path: "/"},
		wire.UsersGroupsByID{UIDs: []uint32{0}},
		wire.Extended{Name: "nobody@example.com"},
		wire.HandleRequest{Type: 99},
	} {
		want(t, c.status(m), wire.OpUnsupported)
	}
	want(t, c.status(wire.PathRequest{Type: wire.TypeLstat, Path: "/f"}), wire.NoSuchFile)
	want(t, c.do(wire.PathRequest{Type: wire.TypeRealpath, Path: "a/.."}).names(t)[0].Filename, "/")
	want(t, c.offers, map[string]string{wire.ExtLimits: "1", wire.ExtExpandPath: "1",
		wire.ExtHomeDirectory: "1"})
}

// lyingInfo is what a careless backend might list.
type lyingInfo struct {
	fs.FileInfo
	name string
}

func (i lyingInfo) Name() string { return i.name }

// careless answers as no backend should.
type careless struct{ info fs.FileInfo }

func (b careless) Stat(context.Context, string) (fs.FileInfo, error) { return b.info, nil }

func (b careless) Open(context.Context, string, uint32, wire.Attrs) (server.File, error) {
	return carelessFile{}, nil
}

func (b careless) Readlink(context.Context, string) (string, error) {
	return strings.Repeat("x", 1<<20), nil
}

func (b careless) List(context.Context, string) iter.Seq2[fs.FileInfo, error] {
	return func(yield func(fs.FileInfo, error) bool) {
		for _, name := range []string{".", "..", "", "a/b", "a\x00b", strings.Repeat("n", 1<<20),
			"good"} {
			if !yield(lyingInfo{b.info, name}, nil) {
				return
			}
		}
		yield(nil, errors.New("the listing\nfailed"))
	}
}

func (b careless) OwnerNames(context.Context, []uint32,
	[]uint32) (users, groups []string, err error) {
	return []string{strings.Repeat("u", 1<<20)}, nil, nil
}

type carelessFile struct{}

func (carelessFile) Close() error {
	return errors.New(strings.Repeat("long ", 1000))
}
func (carelessFile) ReadAt([]byte, int64) (int, error)      { return 0, nil }
func (carelessFile) WriteAt(p []byte, _ int64) (int, error) { return len(p) / 2, nil }

func TestCarelessBackend(t *testing.T) {
	info, err := memfs.New(0).Stat(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, careless{info: info}, nil)
	h := c.do(wire.PathRequest{Type: wire.TypeOpendir, Path: "/"}).handle(t)
	names := c.do(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}).names(t)
	if len(names) != 1 || names[0].Filename != "good" {
		t.Errorf("listed %d names", len(names))
	}
	want(t, c.status(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}), wire.Failure)
	want(t, c.status(wire.HandleRequest{Type: wire.TypeReaddir, Handle: h}), wire.EOF)
	want(t, c.status(wire.PathRequest{Type: wire.TypeReadlink, Path: "/l"}), wire.BadMessage)
	want(t, c.do(wire.UsersGroupsByID{UIDs: []uint32{1}}).typ, wire.TypeExtendedReply)
	h = c.open("/f", wire.OpenRead|wire.OpenWrite)
	want(t, c.status(wire.Read{Handle: h, Length: 10}), wire.Failure)
	want(t, c.status(wire.Write{Handle: h, Data: []byte("0123456789")}), wire.Failure)
	want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h}), wire.Failure)
}
