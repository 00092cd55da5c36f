package server_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// onDisk returns the backends whose files are those of a tree. objectfs has tests of quotas of its
// own.
func onDisk() map[string]func(*testing.T) server.FS {
	some := maps.Clone(backends)
	delete(some, "objectfs")
	return some
}

func TestQuota(t *testing.T) {
	for name, make := range onDisk() {
		if name == "osfs, atomic" {
			continue // an upload that has failed cannot be renamed
		}
		t.Run(name, func(t *testing.T) {
			backend := make(t)
			c := start(t, backend, nil)
			c.put("/there", "0123456789")
			q := server.NewQuota(100, 4)
			c = start(t, backend, &server.Options{Policy: server.Policy{Quota: q}})
			h := c.open("/f", create|wire.OpenRead)
			c.ok(wire.Write{Handle: h, Offset: 50, Data: []byte("0123456789")})
			want(t, usage(q), [2]int64{70, 2})
			c.ok(wire.Write{Handle: h, Offset: 0, Data: []byte("0123456789")}) // fills the hole
			want(t, usage(q), [2]int64{70, 2})
			want(t, c.status(wire.Write{Handle: h, Offset: 90, Data: []byte("0")}), wire.Failure)
			want(t, c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h}), wire.Failure)
			size := func(n uint64) message {
				return wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f",
					Attrs: wire.Attrs{Flags: wire.AttrSize, Size: n}}
			}
			want(t, c.status(size(91)), wire.Failure)
			want(t, c.status(size(1<<63)), wire.Failure)
			c.ok(size(90))
			want(t, usage(q), [2]int64{100, 2})
			var fs wire.StatVFSReply
			if err := fs.Parse(c.do(wire.ExtendedPath{Name: wire.ExtStatVFS,
				Path: "/"}).body); err != nil || fs.BlocksAvailable != 0 {
				t.Errorf("a full quota has %d blocks left, %v", fs.BlocksAvailable, err)
			}
			c.ok(size(0))
			c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
			c.symlink(t, "x", "/l")
			want(t, usage(q), [2]int64{10, 4})
			want(t, c.status(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/e"}), wire.Failure)
			want(t, c.status(wire.Open{Path: "/g", Flags: create}), wire.Failure)
			c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/l"})
			c.ok(wire.PathRequest{Type: wire.TypeRmdir, Path: "/d"})
			c.ok(wire.PosixRename{OldPath: "/f", NewPath: "/there"})
			want(t, usage(q), [2]int64{0, 1})

			c.put("/from", "0123456789012345678901234567890123456789012345678901")
			from, to := c.open("/from", wire.OpenRead), c.open("/to", create|wire.OpenRead)
			want(t, c.status(wire.CopyData{FromHandle: from, ToHandle: to}), wire.Failure)
			c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/to"})
			to = c.open("/to", create|wire.OpenRead)
			c.ok(wire.CopyData{FromHandle: from, FromOffset: 40, ToHandle: to})
			want(t, usage(q), [2]int64{64, 3})
		})
	}
}

func usage(q *server.Quota) [2]int64 {
	bytes, files := q.Usage()
	return [2]int64{bytes, files}
}

// TestQuotaKeepsCount does random things and compares the count with what a walk finds.
func TestQuotaKeepsCount(t *testing.T) {
	for name, make := range backends {
		t.Run(name, func(t *testing.T) {
			backend := make(t)
			random := rand.New(rand.NewPCG(1, 2))
			q := server.NewQuota(2000, 12)
			c := start(t, backend, &server.Options{Policy: server.Policy{Quota: q}})
			path := func() string { return fmt.Sprintf("/%c", 'a'+random.IntN(5)) }
			if random.IntN(2) == 0 {
				path = func() string { return fmt.Sprintf("/%c", 'a'+random.IntN(15)) }
			}
			for i := range 2000 {
				var m message
				switch random.IntN(8) {
				case 0, 1:
					flags := []uint32{create, wire.OpenWrite, wire.OpenWrite | wire.OpenCreate,
						wire.OpenAppend | wire.OpenCreate}
					p := c.do(wire.Open{Path: path(), Flags: flags[random.IntN(4)]})
					if p.typ != wire.TypeHandle {
						continue
					}
					h := p.handle(t)
					for range random.IntN(3) {
						c.status(wire.Write{Handle: h, Offset: uint64(random.IntN(300)),
							Data: []byte(path() + path())})
					}
					if random.IntN(3) == 0 {
						c.status(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrSize,
							Size: uint64(random.IntN(400))}})
					}
					m = wire.HandleRequest{Type: wire.TypeClose, Handle: h}
				case 2:
					m = wire.PathRequest{Type: wire.TypeRemove, Path: path()}
				case 3:
					m = wire.PathRequest{Type: wire.TypeRmdir, Path: path()}
				case 4:
					m = wire.PathAttrs{Type: wire.TypeMkdir, Path: path()}
				case 5:
					m = wire.PosixRename{OldPath: path(), NewPath: path()}
				case 6:
					m = wire.Rename{OldPath: path(), NewPath: path()}
				case 7:
					m = wire.PathAttrs{Type: wire.TypeSetstat, Path: path(), Attrs: wire.Attrs{
						Flags: wire.AttrSize, Size: uint64(random.IntN(500)),
					}}
				}
				c.do(m)
				kept := usage(q)
				if err := q.Recount(t.Context(), backend, "/"); err != nil {
					t.Fatal(err)
				}
				if found := usage(q); kept != found && i > 20 {
					t.Fatalf("after %d steps, the last %+v: %v was kept, %v is there", i, m, kept,
						found)
				} else if found[0] > 2000 || found[1] > 12 {
					t.Fatalf("%v is there", found)
				}
			}
		})
	}
}

// TestQuotaHasNoWayAround does what would confuse counting by name, with files that stay open, and
// compares the count with what exists once everything is closed.
func TestQuotaHasNoWayAround(t *testing.T) {
	size := func(n uint64) wire.Attrs { return wire.Attrs{Flags: wire.AttrSize, Size: n} }
	ten := []byte("0123456789")
	for trick, try := range map[string]func(t *testing.T, c *raw){
		"created with a size": func(t *testing.T, c *raw) {
			want(t, c.do(wire.Open{Path: "/f", Flags: create, Attrs: size(101)}).status(t).Message,
				"quota exceeded")
			c.close(c.do(wire.Open{Path: "/f", Flags: wire.OpenWrite | wire.OpenCreate,
				Attrs: size(70)}).handle(t))
			h := c.open("/g", create)
			want(t, c.status(wire.Write{Handle: h, Offset: 30, Data: ten}), wire.Failure)
			c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
		},
		"resized as a link": func(t *testing.T, c *raw) {
			if c.offers[wire.ExtLsetstat] == "" {
				return
			}
			c.put("/f", "")
			want(t, c.status(wire.Lsetstat{Path: "/f", Attrs: size(101)}), wire.BadMessage)
		},
		"removed while open": func(t *testing.T, c *raw) {
			for range 5 {
				h := c.open("/f", create)
				c.ok(wire.Write{Handle: h, Offset: 10, Data: ten})
				c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"})
			}
			want(t, c.status(wire.Write{Handle: c.open("/f", create), Data: ten}), wire.Failure)
		},
		"moved away while open": func(t *testing.T, c *raw) {
			c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
			h := c.open("/d/f", create)
			c.ok(wire.Write{Handle: h, Offset: 80, Data: ten})
			c.ok(wire.Rename{OldPath: "/d", NewPath: "/e"})
			c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
			want(t, c.status(wire.Write{Handle: c.open("/d/f", create), Offset: 10, Data: ten}),
				wire.Failure)
			c.close(h)
		},
		"cut by another name": func(t *testing.T, c *raw) {
			c.put("/f", "")
			c.symlink(t, "f", "/l")
			c.ok(wire.Hardlink{OldPath: "/f", NewPath: "/h"})
			h := c.open("/f", create)
			for _, name := range []string{"/l", "/h"} {
				c.ok(wire.Write{Handle: h, Offset: 80, Data: ten})
				c.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: name, Attrs: size(0)})
			}
			c.ok(wire.Write{Handle: c.open("/h", wire.OpenWrite), Offset: 60, Data: ten})
			c.ok(wire.Write{Handle: h, Offset: 80, Data: ten})
			want(t, c.status(wire.Write{Handle: h, Offset: 91, Data: ten}), wire.Failure)
		},
		"renamed to itself": func(t *testing.T, c *raw) {
			c.put("/f", "")
			c.ok(wire.Hardlink{OldPath: "/f", NewPath: "/h"})
			for range 10 {
				c.ok(wire.PosixRename{OldPath: "/f", NewPath: "/h"})
				c.ok(wire.PosixRename{OldPath: "/f", NewPath: "/f"})
			}
		},
		"opened in vain": func(t *testing.T, c *raw) {
			c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
			for range 10 {
				want(t, c.do(wire.Open{Path: "/d", Flags: create}).typ, wire.TypeStatus)
			}
		},
	} {
		for name, make := range onDisk() {
			t.Run(trick+"/"+name, func(t *testing.T) {
				backend := make(t)
				q := server.NewQuota(100, 8)
				c := start(t, backend, &server.Options{Policy: server.Policy{Quota: q}})
				try(t, c)
				if found := recounted(t, q, backend); found[0] > 100 || found[1] > 8 {
					t.Errorf("%v is there", found)
				}
				c.over() // closes open files
				kept := usage(q)
				if found := recounted(t, q, backend); kept != found {
					t.Errorf("%v was kept, %v is there", kept, found)
				}
			})
		}
	}
}

func recounted(t *testing.T, q *server.Quota, backend server.FS) [2]int64 {
	t.Helper()
	if err := q.Recount(t.Context(), backend, "/"); err != nil {
		t.Fatal(err)
	}
	return usage(q)
}

// TestQuotaIsRecounted changes the tree behind the quota's back while a file is open.
func TestQuotaIsRecounted(t *testing.T) {
	for name, make := range onDisk() {
		t.Run(name, func(t *testing.T) {
			backend := make(t)
			q := server.NewQuota(100, 0)
			others, c := start(t, backend, nil), start(t, backend,
				&server.Options{Policy: server.Policy{Quota: q}})
			h := c.open("/f", create)
			c.ok(wire.Write{Handle: h, Offset: 40, Data: []byte("0123456789")})
			others.put("/g", "0123456789")
			others.ok(wire.PathAttrs{Type: wire.TypeSetstat, Path: "/f",
				Attrs: wire.Attrs{Flags: wire.AttrSize, Size: 60}})
			want(t, usage(q), [2]int64{50, 1})
			want(t, recounted(t, q, backend), [2]int64{70, 2})
			want(t, c.status(wire.Write{Handle: h, Offset: 81, Data: []byte("0123456789")}),
				wire.Failure)
			others.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/g"})
			want(t, recounted(t, q, backend), [2]int64{60, 1})
			h = c.open("/h", create)
			c.ok(wire.Write{Handle: h, Offset: 30, Data: []byte("0123456789")})
			want(t, usage(q), [2]int64{100, 2})
		})
	}
}

// TestQuotaKeepsCountOfOpenFiles does random things with names while files are open, and compares
// the counts once all are closed.
func TestQuotaKeepsCountOfOpenFiles(t *testing.T) {
	for name, make := range onDisk() {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				backend, random := make(t), rand.New(rand.NewPCG(seed, 3))
				q := server.NewQuota(2000, 15)
				c := start(t, backend, &server.Options{Policy: server.Policy{Quota: q}})
				path := func() string {
					return []string{"", "/d", "/e"}[random.IntN(3)] +
						fmt.Sprintf("/%c", 'a'+random.IntN(6))
				}
				most := [2]int64{}
				for round := range 30 {
					var handles [][]byte
					for range 40 {
						m := randomChange(random, path)
						if open, ok := m.(wire.Open); ok {
							if p := c.do(open); p.typ == wire.TypeHandle {
								handles = append(handles, p.handle(t))
							}
							continue
						}
						c.do(m)
						if len(handles) > 0 {
							h := handles[random.IntN(len(handles))]
							c.do(wire.Write{Handle: h, Offset: uint64(random.IntN(500)),
								Data: []byte(path() + path())})
							c.do(wire.Fsetstat{Handle: h,
								Attrs: wire.Attrs{Flags: uint32(random.IntN(2)) * wire.AttrSize,
									Size: uint64(random.IntN(500))}})
						}
					}
					for _, h := range handles {
						c.do(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
					}
					kept := usage(q)
					if found := recounted(t, q, backend); kept != found && round > 0 {
						t.Fatalf("after round %d %v was kept, %v is there", round, kept, found)
					} else if found[0] > 2000 || found[1] > 15 {
						t.Fatalf("%v is there", found)
					} else {
						most = [2]int64{max(most[0], found[0]), max(most[1], found[1])}
					}
				}
				if most[0] < 1000 || most[1] < 8 {
					t.Errorf("no more than %v was there at any time", most)
				}
			})
		}
	}
}

// randomChange returns a random change to two directories and their parent.
func randomChange(random *rand.Rand, path func() string) message {
	size := wire.Attrs{Flags: wire.AttrSize, Size: uint64(random.IntN(500))}
	dir := func() string { return []string{"/d", "/e", "/d/sub"}[random.IntN(3)] }
	switch random.IntN(12) {
	case 0:
		return wire.PathAttrs{Type: wire.TypeMkdir, Path: dir()}
	case 1:
		return wire.PathRequest{Type: wire.TypeRmdir, Path: dir()}
	case 2:
		return wire.PosixRename{OldPath: dir(), NewPath: dir()}
	case 3:
		return wire.Symlink{First: path(), Second: path()}
	case 4:
		return wire.Hardlink{OldPath: path(), NewPath: path()}
	case 5:
		return wire.PathAttrs{Type: wire.TypeSetstat, Path: path(), Attrs: size}
	case 6:
		return wire.Rename{OldPath: path(), NewPath: path()}
	case 7, 8:
		return wire.PosixRename{OldPath: path(), NewPath: path()}
	case 9:
		return wire.PathRequest{Type: wire.TypeRemove, Path: path()}
	}
	flags := []uint32{create, wire.OpenWrite, wire.OpenWrite | wire.OpenCreate,
		wire.OpenAppend | wire.OpenCreate}
	return wire.Open{Path: path(), Flags: flags[random.IntN(4)],
		Attrs: wire.Attrs{Flags: uint32(random.IntN(2)) * wire.AttrSize, Size: size.Size}}
}

// TestAppendsUnderQuota: several clients that append at once get no more space than there is.
func TestAppendsUnderQuota(t *testing.T) {
	for range 50 {
		backend := memfs.New(0)
		q := server.NewQuota(10, 0)
		view, err := server.NewView(backend, &server.Policy{Quota: q})
		if err != nil {
			t.Fatal(err)
		}
		ready, done := make(chan struct{}), make(chan error)
		const writers = 8
		for range writers {
			f, err := view.Open(t.Context(), "/f", wire.OpenAppend|wire.OpenCreate, wire.Attrs{})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-ready
				f.WriteAt([]byte("123456"), 0)
				done <- f.Close()
			}()
		}
		close(ready)
		for range writers {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		info, err := backend.Stat(t.Context(), "/f")
		if err != nil || info.Size() > 10 {
			t.Fatalf("%d bytes under a quota of 10, %v", info.Size(), err)
		}
		want(t, usage(q), [2]int64{info.Size(), 1})
	}
}

// TestWriteUnderWayWhileTruncated: a WRITE that lands after another session has cut the file counts
// against the quota at once, and not only when the file is closed.
func TestWriteUnderWayWhileTruncated(t *testing.T) {
	for name, cut := range map[string]func(view *server.View, f server.File) error{
		"by path": func(view *server.View, _ server.File) error {
			return view.Setstat(context.Background(), "/f", wire.Attrs{Flags: wire.AttrSize})
		},
		"by handle": func(_ *server.View, f server.File) error {
			return f.(server.FileSetstater).Setstat(wire.Attrs{Flags: wire.AttrSize})
		},
		"by opening": func(view *server.View, _ server.File) error {
			f, err := view.Open(context.Background(), "/f", wire.OpenWrite|wire.OpenTruncate,
				wire.Attrs{})
			if err == nil {
				err = f.Close()
			}
			return err
		},
	} {
		for _, flags := range []uint32{wire.OpenWrite, wire.OpenAppend} {
			t.Run(fmt.Sprintf("%s, append %t", name, flags == wire.OpenAppend), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					backend, q := newGated(), server.NewQuota(100, 0)
					view, err := server.NewView(backend, &server.Policy{Quota: q})
					if err != nil {
						t.Fatal(err)
					}
					f, err := view.Open(t.Context(), "/f", flags|wire.OpenCreate, wire.Attrs{})
					if err != nil {
						t.Fatal(err)
					}
					release, done := backend.hold("write /f"), make(chan error)
					go func() {
						_, err := f.WriteAt(make([]byte, 60), 20)
						done <- err
					}()
					synctest.Wait()
					if err := cut(view, f); err != nil {
						t.Error(err)
					}
					release()
					if err := <-done; err != nil {
						t.Error(err)
					}
					info, err := backend.Stat(t.Context(), "/f")
					if err != nil || usage(q)[0] < info.Size() {
						t.Errorf("%d bytes count, and %d are there, %v", usage(q)[0], info.Size(),
							err)
					}
					// what ended before does not count any longer
					if err := cut(view, f); err != nil || usage(q)[0] != 0 {
						t.Errorf("%d bytes count after another cut, %v", usage(q)[0], err)
					}
					if err := f.Close(); err != nil || usage(q)[0] != 0 {
						t.Errorf("%d bytes count at the end, %v", usage(q)[0], err)
					}
				})
			})
		}
	}
}

// TestQuotaOfAppendedCopies: a copy within the server that is appended needs room for itself once.
func TestQuotaOfAppendedCopies(t *testing.T) {
	for name, make := range onDisk() {
		t.Run(name, func(t *testing.T) {
			q := server.NewQuota(100, 0)
			c := start(t, make(t), &server.Options{Policy: server.Policy{Quota: q}})
			c.put("/from", strings.Repeat("x", 40))
			c.put("/to", strings.Repeat("y", 15))
			from, to := c.open("/from", wire.OpenRead), c.open("/to", wire.OpenAppend)
			c.ok(wire.CopyData{FromHandle: from, ToHandle: to})
			want(t, usage(q), [2]int64{95, 2})
		})
	}
}
