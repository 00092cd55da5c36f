package objectfs_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// TestQuotaOfSeveralNodes: servers that share a bucket, a state and an account, but do not know of
// each other's changes, keep a count that equals what a recount finds.
func TestQuotaOfSeveralNodes(t *testing.T) {
	for name, operations := range map[string]string{
		"overwriting": "w", "removals": "wr", "renames": "wn", "uploads": "wat",
		"directories": "wrdmk", "all": "wwatrnsdmk",
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				b, account := newBench(t), server.NewAccount(0, 0)
				account.Settle(1<<40, 1<<20) // it would not fall below zero
				var all sync.WaitGroup
				for node := range uint64(2) {
					quota, files := server.NewQuotaOf(account), b.serve(b.bucket)
					for client := range uint64(2) {
						view, err := server.NewView(files, &server.Policy{Quota: quota})
						b.must(err)
						one := &changer{view, mathrand.New(mathrand.NewPCG(seed, 2*node+client))}
						all.Go(func() {
							for range 300 {
								one.change(operations[one.random.IntN(len(operations))])
							}
						})
					}
				}
				all.Wait()
				counted := server.NewQuota(0, 0)
				b.must(counted.Recount(t.Context(), b.fs, "/"))
				bytes, number := counted.Usage()
				now := account.Usage()
				if now.Bytes -= 1 << 40; now.Bytes != bytes || now.Files-1<<20 != number {
					t.Errorf("%d bytes in %d files were kept, %d in %d are there", now.Bytes,
						now.Files-1<<20, bytes, number)
				}
			})
		}
	}
}

// changer makes changes at random, which fail if somebody else has the file or has removed it.
type changer struct {
	view   *server.View
	random *mathrand.Rand
}

func (c *changer) change(operation byte) {
	ctx := context.Background()
	place := func() string { return []string{"/", "/", "/d/", "/e/"}[c.random.IntN(4)] }
	name := fmt.Sprint(place(), c.random.IntN(2))
	other := fmt.Sprint(place(), c.random.IntN(2))
	switch operation {
	case 'r':
		c.view.Remove(ctx, name)
	case 'n':
		c.view.PosixRename(ctx, name, other)
		c.view.Rename(ctx, other, name)
	case 's':
		c.view.Setstat(ctx, name, sized(c.random.Int64N(4*partSize)))
	case 'd':
		c.view.PosixRename(ctx, "/d", "/e")
		c.view.PosixRename(ctx, "/e", "/d")
	case 'm':
		c.view.Mkdir(ctx, []string{"/d", "/e"}[c.random.IntN(2)], wire.Attrs{})
	case 'k':
		c.view.Rmdir(ctx, []string{"/d", "/e"}[c.random.IntN(2)])
	case 't':
		c.write(name+".filepart", operation)
		c.view.PosixRename(ctx, name+".filepart", []string{name, other}[c.random.IntN(2)])
	default:
		c.write(name, operation)
	}
}

// write writes a file, whose contents no other has.
func (c *changer) write(name string, operation byte) {
	flags := []uint32{truncate, create}[c.random.IntN(2)]
	f, err := c.view.Open(context.Background(), name, flags, wire.Attrs{})
	if err != nil {
		return
	}
	contents := make([]byte, c.random.IntN([]int{1000, 4 * partSize}[c.random.IntN(2)]))
	rand.Read(contents)
	f.WriteAt(contents, 0)
	if operation == 'a' {
		f.Abandon(io.ErrUnexpectedEOF)
		return
	}
	f.Close()
}

// counts fails unless a quota has this count, as it was kept and as it is found.
func (b *bench) counts(quota *server.Quota, bytes, files int64) {
	b.Helper()
	for _, what := range []string{"kept", "there"} {
		if gotBytes, gotFiles := quota.Usage(); gotBytes != bytes || gotFiles != files {
			b.Errorf("%d bytes in %d files are %s, want %d in %d", gotBytes, gotFiles, what, bytes,
				files)
		}
		b.must(quota.Recount(b.Context(), b.fs, "/"))
	}
}

// keeps fails unless a count finds what a quota has kept.
func (b *bench) keeps(quota *server.Quota, format string, when ...any) {
	b.Helper()
	bytes, files := quota.Usage()
	b.must(quota.Recount(b.Context(), b.fs, "/"))
	if nowBytes, now := quota.Usage(); nowBytes != bytes || now != files {
		b.Errorf("%s: %d bytes in %d files are kept, %d in %d are there", fmt.Sprintf(format, when...),
			bytes, files, nowBytes, now)
	}
}

// nodes makes /d/f and an empty /e. The nodes that serve them share an account.
func (b *bench) nodes() (node func(files *objectfs.FS) *server.View, shared *server.Quota) {
	account := server.NewAccount(0, 0)
	b.must(b.fs.Mkdir(b.Context(), "/d", wire.Attrs{}))
	b.must(b.fs.Mkdir(b.Context(), "/e", wire.Attrs{}))
	b.put("/d/f", text(100))
	account.Settle(100, 3)
	return func(files *objectfs.FS) *server.View {
		view, err := server.NewView(files, &server.Policy{Quota: server.NewQuotaOf(account)})
		b.must(err)
		return view
	}, server.NewQuotaOf(account)
}

// quoted returns a view of a bucket with a quota that has been counted.
func (b *bench) quoted(bucket objectfs.Bucket) (*server.View, *server.Quota) {
	quota := server.NewQuota(0, 0)
	view, err := server.NewView(b.serve(bucket), &server.Policy{Quota: quota})
	b.must(err)
	b.must(quota.Recount(b.Context(), b.fs, "/"))
	return view, quota
}

// TestQuotaOfHiddenKeys: keys below a file, and those that have no path, take space and count.
func TestQuotaOfHiddenKeys(t *testing.T) {
	b := newBench(t)
	for _, key := range []string{"a", "a/b", "a/c/d", "e//f", "g/h"} {
		body := bytes.NewReader([]byte(key))
		_, err := b.bucket.Put(t.Context(), key, io.NewSectionReader(body, 0, body.Size()),
			objectfs.Condition{})
		b.must(err)
	}
	view, quota := b.quoted(b.bucket)
	b.counts(quota, 1+3+5+4+3, 5)
	b.must(view.Remove(t.Context(), "/a/b"))
	b.counts(quota, 1+5+4+3, 4)
	b.must(view.Remove(t.Context(), "/g/h")) // and its directory, which has no marker, is gone
	b.counts(quota, 1+5+4, 3)
	b.must(view.PosixRename(t.Context(), "/a/c/d", "/a"))
	b.counts(quota, 5+4, 2)
}

// TestQuotaOfHalfARename: what a rename has copied or deleted counts, wherever it fails.
func TestQuotaOfHalfARename(t *testing.T) {
	for _, after := range []bool{false, true} {
		for call, reached := 1, true; reached; call++ {
			b := newBench(t)
			b.must(b.fs.Mkdir(t.Context(), "/d", wire.Attrs{}))
			for i := range 20 {
				b.put(fmt.Sprint("/d/", i), text(100+i))
			}
			storage := &faulty{Bucket: b.bucket}
			view, quota := b.quoted(storage)
			storage.broken, storage.after = call, after
			err := view.PosixRename(t.Context(), "/d", "/e")
			if reached = storage.name != ""; reached && storage.name != "Head" && err == nil {
				t.Errorf("the rename succeeds although %s fails", storage.name)
			}
			b.keeps(quota, "call %d, %s (after: %t)", call, storage.name, after)
		}
	}
}

// TestQuotaOfACopyMadeTwice: the copy counts that an earlier try has made, whose answer was lost,
// even if the client is told that there is a file by now.
func TestQuotaOfACopyMadeTwice(t *testing.T) {
	b := newBench(t)
	b.put("/f", text(100))
	storage := &faulty{Bucket: b.bucket, after: true, twice: true}
	view, quota := b.quoted(storage)
	for call := 1; storage.name != "Copy"; call++ {
		storage.call, storage.broken, storage.name = 0, call, ""
		if err := view.Rename(t.Context(), "/f", "/g"); storage.name == "Copy" {
			b.is(err, server.ErrUnsure)
		} else {
			b.must(errors.Join(err, view.Rename(t.Context(), "/g", "/f")))
		}
	}
	b.counts(quota, 200, 2)
}

// TestQuotaOfAnotherName: an upload that is renamed to a name not its own passes through that one,
// where another server stores a file meanwhile.
func TestQuotaOfAnotherName(t *testing.T) {
	for _, when := range []string{"Complete", "Copy", "Delete"} {
		for _, after := range []bool{false, true} {
			b, account := newBench(t), server.NewAccount(0, 0)
			b.put("/f.filepart", text(5*partSize))
			account.Settle(5*partSize, 1)
			node := func(bucket objectfs.Bucket) *server.View {
				view, err := server.NewView(b.serve(bucket),
					&server.Policy{Quota: server.NewQuotaOf(account)})
				b.must(err)
				return view
			}
			node(&intruder{b.bucket, when, after, func() {
				if u, err := b.state.Find(t.Context(), "f"); err == nil && u.Locked {
					b.must(b.state.Unlock(t.Context(), u, false)) // as others do with a dead one's
				}
				f, err := node(b.bucket).Open(t.Context(), "/f", truncate, wire.Attrs{})
				b.must(err)
				b.at(f, 0, "newer")
				b.must(f.Close())
			}}).PosixRename(t.Context(), "/f.filepart", "/g")
			b.keeps(server.NewQuotaOf(account), "%s, after: %t", when, after)
		}
	}
}

// TestQuotaOfTwoRenames: a file is renamed to where the rename of its directory takes it just then,
// too. One of both counts it.
func TestQuotaOfTwoRenames(t *testing.T) {
	for _, after := range []bool{false, true} {
		b := newBench(t)
		node, shared := b.nodes()
		node(b.serve(&intruder{b.bucket, "Copy", after, sync.OnceFunc(func() {
			node(b.fs).PosixRename(t.Context(), "/d/f", "/e/f")
		})})).PosixRename(t.Context(), "/d", "/e")
		b.holds("/e/f", text(100))
		b.keeps(shared, "after: %t", after)
	}
}

// TestQuotaOfTheSameRename: another server moves a file just before it is locked for the same
// rename, or for that of its directory. One of both counts the file.
func TestQuotaOfTheSameRename(t *testing.T) {
	for from, to := range map[string]string{"/d/f": "/e/f", "/d": "/e"} {
		b := newBench(t)
		node, shared := b.nodes()
		state := &lateLock{b.state, "d/f", sync.OnceFunc(func() {
			b.must(node(b.fs).PosixRename(t.Context(), "/d/f", "/e/f"))
		})}
		late := node(objectfs.NewSmall(b.bucket, objectfs.Options{State: state}, partSize, 16*partSize))
		if err := late.PosixRename(t.Context(), from, to); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("renaming %s, of which somebody else has moved the file: %v", from, err)
		}
		b.holds("/e/f", text(100))
		b.keeps(shared, "renaming %s", from)
	}
}

// lateLock is a state in which something happens just before a name is locked.
type lateLock struct {
	objectfs.State
	name   string
	before func()
}

func (l *lateLock) Lock(ctx context.Context, name, target string) (objectfs.Upload, error) {
	if name == l.name {
		l.before()
	}
	return l.State.Lock(ctx, name, target)
}

// intruder is a bucket to which another server stores something at a call.
type intruder struct {
	objectfs.Bucket
	when  string
	after bool
	store func()
}

func (i *intruder) at(call string, after bool) {
	if call == i.when && after == i.after {
		i.store()
	}
}

func (i *intruder) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	i.at("Complete", false)
	defer i.at("Complete", true)
	return i.Bucket.Complete(ctx, key, id, parts, when)
}

func (i *intruder) Copy(ctx context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	i.at("Copy", false)
	defer i.at("Copy", true)
	return i.Bucket.Copy(ctx, from, etag, to, when)
}

func (i *intruder) Delete(ctx context.Context, key, etag string) error {
	i.at("Delete", false)
	defer i.at("Delete", true)
	return i.Bucket.Delete(ctx, key, etag)
}

// TestReadingAtTheLimit: with as many files as a quota allows, OPEN with CREAT for reading opens a
// file that is there, and makes no other.
func TestReadingAtTheLimit(t *testing.T) {
	b := newBench(t)
	b.put("/f", "text")
	view, err := server.NewView(b.fs, &server.Policy{Quota: server.NewQuota(0, 1)})
	b.must(err)
	open := func(name string) error {
		f, err := view.Open(t.Context(), name, wire.OpenRead|wire.OpenCreate, wire.Attrs{})
		if err == nil {
			f.Close()
		}
		return err
	}
	b.must(open("/f"))
	if err := open("/g"); !errors.Is(err, server.ErrQuota) {
		t.Errorf("a new file: %v", err)
	}
}

// TestSweepForQuotasOfOneCount: what is swept is subtracted once from quotas that share a count.
func TestSweepForQuotasOfOneCount(t *testing.T) {
	b, quota := newBench(t), server.NewQuota(0, 0)
	f, err := b.open("/f", truncate)
	b.must(err)
	b.at(f.(writer), 0, text(3*partSize))
	b.must(f.(writer).Abandon())
	b.put("/g", "text")
	b.must(quota.Recount(t.Context(), b.fs, "/"))
	if _, files := quota.Usage(); files != 2 {
		t.Fatalf("%d files count", files)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience(t))
	defer cancel()
	b.must(b.fs.Sweep(ctx, -time.Hour, quota, quota.WithLimits(1000, 10)))
	if bytes, files := quota.Usage(); bytes != 4 || files != 1 {
		t.Errorf("%d bytes in %d files count", bytes, files)
	}
}
