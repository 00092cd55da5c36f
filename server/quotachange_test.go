package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// arriving is a gated tree that says when it is asked for a change of /slow.
type arriving struct {
	*gated
	asked chan struct{}
}

func (a arriving) Mkdir(ctx context.Context, name string, attrs wire.Attrs) error {
	a.asked <- struct{}{}
	return a.gated.Mkdir(ctx, name, attrs)
}

func (a arriving) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if strings.HasPrefix(name, "/slow") {
		a.asked <- struct{}{}
	}
	return a.gated.Open(ctx, name, flags, attrs)
}

// TestQuotaWaitsOnlyForTheSameName: while the backend makes a change, nobody waits for it who does
// not want to change the same name.
func TestQuotaWaitsOnlyForTheSameName(t *testing.T) {
	backend := arriving{newGated(), make(chan struct{})}
	q := server.NewQuota(1000, 100)
	view, err := server.NewView(backend, &server.Policy{Quota: q})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	put := func(name string) error {
		f, err := view.Open(ctx, name, wire.OpenWrite|wire.OpenCreate, wire.Attrs{})
		if err == nil {
			if _, err = f.WriteAt([]byte("0123456789"), 0); err == nil {
				err = f.Close()
			}
		}
		return err
	}
	for _, one := range []struct {
		held string
		slow func() error
	}{
		{"mkdir /slow", func() error { return view.Mkdir(ctx, "/slow", wire.Attrs{}) }},
		{"open /slowly", func() error { return put("/slowly") }},
	} {
		release, slow := backend.hold(one.held), make(chan error, 1)
		go func() { slow <- one.slow() }()
		<-backend.asked
		others := make(chan error, 1)
		go func() {
			err := put("/a")
			if err == nil {
				err = view.PosixRename(ctx, "/a", "/b")
			}
			if err == nil {
				err = view.Remove(ctx, "/b")
			}
			others <- err
		}()
		select {
		case err := <-others:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Minute):
			t.Errorf("changes wait for %s", one.held)
		}
		release()
		if err := <-slow; err != nil {
			t.Error(err)
		}
	}
	want(t, usage(q), [2]int64{10, 2})
}

// TestQuotaOfManyWriters: sessions that change the same few names at once cannot make the count
// less than what is there. It is exact if they call the names the same.
func TestQuotaOfManyWriters(t *testing.T) {
	const writers, rounds, most = 8, 150, 3000
	for name, make := range onDisk() {
		for spelling, spell := range map[string][]string{
			"one spelling":  {"/d", "/e"},
			"many of each":  {"/d", "/e", "/d/../e", "/d/./", "/link"},
			"beside a link": {"/d", "/link", "/other"},
		} {
			t.Run(name+"/"+spelling, func(t *testing.T) {
				backend, q := make(t), server.NewQuota(most, 0)
				var group sync.WaitGroup
				for i := range writers {
					view, err := server.NewView(backend, &server.Policy{Quota: q})
					if err != nil {
						t.Fatal(err)
					}
					group.Go(func() {
						random := rand.New(rand.NewPCG(uint64(i), 5))
						for range rounds {
							changeSomething(t.Context(), random, view, spell)
						}
					})
				}
				group.Wait()
				kept := usage(q)
				found := recounted(t, q, backend)
				if found[0] > most {
					t.Errorf("%d bytes under a quota of %d", found[0], most)
				}
				if kept[0] < found[0] || kept[1] < found[1] || len(spell) == 2 && kept != found {
					t.Errorf("%v was kept, %v is there", kept, found)
				}
			})
		}
	}
}

// changeSomething makes a random change in one of the directories; it may fail.
func changeSomething(ctx context.Context, random *rand.Rand, view *server.View, dirs []string) {
	dir := func() string { return dirs[random.IntN(len(dirs))] }
	file := func() string { return fmt.Sprintf("%s/%c", dir(), 'a'+random.IntN(4)) }
	size := func() uint64 { return uint64(random.IntN(500)) }
	switch random.IntN(12) {
	case 0:
		view.Mkdir(ctx, dir(), wire.Attrs{})
	case 1:
		view.Rename(ctx, dir(), dir())
	case 2:
		view.Symlink(ctx, dir(), dir())
	case 3:
		view.Remove(ctx, dir())
	case 4, 5:
		view.Remove(ctx, file())
	case 6, 7:
		view.PosixRename(ctx, file(), file())
	case 8:
		view.Link(ctx, file(), file())
	case 9:
		view.Setstat(ctx, file(), wire.Attrs{Flags: wire.AttrSize, Size: size()})
	default:
		flags := []uint32{create, wire.OpenWrite, wire.OpenAppend | wire.OpenCreate}
		f, err := view.Open(ctx, file(), flags[random.IntN(3)], wire.Attrs{})
		if err != nil {
			return
		}
		f.WriteAt(make([]byte, 1+size()/2), int64(size()))
		if random.IntN(3) == 0 {
			f.Truncate(int64(size()))
		}
		f.Close()
	}
}

// published is a tree in which an upload appears when it is closed, as in object storage, and files
// are known by their names.
type published struct{ tree *memfs.FS }

func (p published) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := p.tree.Stat(ctx, name)
	return nameless{info}, err
}

// nameless has no identity but its name.
type nameless struct{ fs.FileInfo }

func (p published) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return p.tree.List(ctx, name)
}

func (p published) Remove(ctx context.Context, name string) error {
	return p.tree.Remove(ctx, name)
}

func (p published) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	upload := memfs.New(0)
	f, err := upload.Open(ctx, "/upload", wire.OpenRead|create, wire.Attrs{})
	if err != nil {
		return nil, err
	}
	return &unpublished{f.(memFile), p.tree, path.Clean(name)}, nil
}

type unpublished struct {
	memFile
	tree *memfs.FS
	name string
}

func (u *unpublished) Stat() (fs.FileInfo, error) {
	info, err := u.memFile.Stat()
	return nameless{info}, err
}

func (u *unpublished) Close() error {
	info, err := u.memFile.Stat()
	if err != nil {
		return err
	}
	data := make([]byte, info.Size())
	u.memFile.ReadAt(data, 0)
	f, err := u.tree.Open(context.Background(), u.name, create, wire.Attrs{})
	if err == nil {
		_, err = f.(memFile).WriteAt(data, 0)
		f.Close()
	}
	return err
}

func (u *unpublished) Abandon() error { return nil }

// TestQuotaOfAbandonedUploads: an upload that ends half way counts for what is left of it, and one
// that has hit the quota can be removed, after which there is as much room as before.
func TestQuotaOfAbandonedUploads(t *testing.T) {
	kinds := map[string]func(t *testing.T) server.FS{
		"published at the end": func(*testing.T) server.FS { return published{memfs.New(0)} },
	}
	for name, make := range onDisk() {
		kinds[name] = make
	}
	for name, new := range kinds {
		t.Run(name, func(t *testing.T) {
			backend, q := new(t), server.NewQuota(100, 3)
			session := func() *raw {
				return start(t, backend, &server.Options{Policy: server.Policy{Quota: q}})
			}
			room := func(c *raw) {
				t.Helper()
				c.put("/room", string(make([]byte, 100)))
				c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/room"})
				want(t, usage(q), [2]int64{0, 0})
			}
			c := session()
			room(c)
			for _, hitting := range []bool{false, true} {
				h := c.open("/f", create)
				c.ok(wire.Write{Handle: h, Data: make([]byte, 60)})
				if hitting {
					want(t, c.status(wire.Write{Handle: h, Offset: 60, Data: make([]byte, 60)}),
						wire.Failure)
					c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
				} else {
					c.over()
					c = session()
				}
				kept := usage(q)
				if found := recounted(t, q, backend); kept != found {
					t.Errorf("hitting the quota %t: %v was kept, %v is there", hitting, kept, found)
				}
				code := c.status(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"})
				left := name != "published at the end" && !(hitting && name == "osfs, atomic")
				if (code == wire.OK) != left {
					t.Errorf("hitting the quota %t: removing what is left: %v", hitting, code)
				}
				room(c)
			}
			// What is replaced by an upload that is then given up is still there, and counts.
			c.put("/old", string(make([]byte, 90)))
			h := c.open("/old", create)
			c.ok(wire.Write{Handle: h, Data: make([]byte, 5)})
			other := session()
			g := other.open("/g", create)
			other.status(wire.Write{Handle: g, Data: make([]byte, 50)})
			other.status(wire.HandleRequest{Type: wire.TypeClose, Handle: g})
			c.over()
			kept := usage(q)
			if found := recounted(t, q, backend); kept != found || found[0] > 100 {
				t.Errorf("%v was kept, %v is there", kept, found)
			}
		})
	}
}

// halfDone is a tree whose OPEN, or FSTAT right after it, fails although the file is open, or
// whose client is gone by then. Its SETSTAT fails although it has set everything.
type halfDone struct {
	server.FS
	fail string
	left context.CancelFunc
}

type halfOpen struct{ memFile }

func (halfOpen) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

func (h halfDone) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := h.FS.(server.Opener).Open(ctx, name, flags, attrs)
	h.left()
	switch {
	case err != nil || h.fail == "":
		return file, err
	case h.fail == "FSTAT":
		return halfOpen{file.(memFile)}, nil
	}
	file.Close()
	return nil, fs.ErrInvalid
}

func (h halfDone) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	return h.FS.(server.Lister).List(ctx, name)
}

func (h halfDone) UploadsAtomically() bool {
	atomic, ok := h.FS.(server.AtomicUploader)
	return ok && atomic.UploadsAtomically()
}

func (h halfDone) Upload(ctx context.Context, name string) (fs.FileInfo, error) {
	return h.FS.(server.AtomicUploader).Upload(ctx, name)
}

func (h halfDone) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	h.FS.(server.Setstater).Setstat(ctx, name, attrs)
	h.left()
	return fs.ErrInvalid
}

// Stat fails without a client, as where a path is resolved.
func (h halfDone) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.FS.Stat(ctx, name)
}

// TestQuotaOfFailedChanges: an OPEN or SETSTAT that has failed, or whose client is gone, counts for
// what it has left.
func TestQuotaOfFailedChanges(t *testing.T) {
	for kind, make := range onDisk() {
		t.Run(kind+"SETSTAT", func(t *testing.T) {
			backend, q := make(t), server.NewQuota(0, 0)
			start(t, backend, nil).put("/old", "0123456789")
			ctx, left := context.WithCancel(t.Context())
			view, err := server.NewView(halfDone{backend, "SETSTAT", left},
				&server.Policy{Quota: q})
			if err != nil {
				t.Fatal(err)
			}
			err = view.Setstat(ctx, "/old", wire.Attrs{Flags: wire.AttrSize, Size: 30})
			if err == nil {
				t.Error("SETSTAT succeeded")
			}
			kept := usage(q)
			want(t, kept, recounted(t, q, backend))
		})
		for _, fail := range []string{"OPEN", "FSTAT", ""} {
			for _, name := range []string{"/new", "/old"} {
				t.Run(kind+fail+name, func(t *testing.T) {
					backend, q := make(t), server.NewQuota(0, 0)
					start(t, backend, nil).put("/old", "0123456789")
					ctx, left := context.WithCancel(t.Context())
					defer left()
					half := halfDone{backend, fail, left}
					view, err := server.NewView(half, &server.Policy{Quota: q})
					if err != nil {
						t.Fatal(err)
					}
					f, err := view.Open(ctx, name, create,
						wire.Attrs{Flags: wire.AttrSize, Size: 30})
					if (err == nil) != (fail == "") {
						t.Errorf("OPEN: %v", err)
					} else if err == nil {
						f.Abandon(context.Canceled)
					}
					kept := usage(q)
					want(t, kept, recounted(t, q, backend))
				})
			}
		}
	}
}

// between is a tree that runs next after /b was described, before the answer is used.
type between struct {
	*memfs.FS
	next func()
}

func (b *between) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	info, err := b.FS.Lstat(ctx, name)
	if next := b.next; name == "/b" && next != nil {
		b.next = nil
		next()
	}
	return info, err
}

// TestQuotaOfTwoNamesRemovedAtOnce: of an open file whose two names are removed at once, each by a
// session that has seen the other name, nothing counts once it is closed.
func TestQuotaOfTwoNamesRemovedAtOnce(t *testing.T) {
	backend, q := &between{FS: memfs.New(0)}, server.NewQuota(1000, 100)
	view, err := server.NewView(backend, &server.Policy{Quota: q})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	f, err := view.Open(ctx, "/a", wire.OpenWrite|wire.OpenCreate, wire.Attrs{})
	ok(err)
	_, err = f.WriteAt([]byte("0123456789"), 0)
	ok(err)
	ok(view.Link(ctx, "/a", "/b"))
	backend.next = func() { ok(view.Remove(ctx, "/a")) }
	ok(view.Remove(ctx, "/b"))
	want(t, usage(q), [2]int64{10, 0})
	ok(f.Close())
	want(t, usage(q), [2]int64{0, 0})
}
