package objectfs_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// TestQuota: what is stored counts, and what is replaced does not.
func TestQuota(t *testing.T) {
	b := newBench(t)
	quota := server.NewQuota(10*partSize, 0)
	view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
	b.must(err)
	ctx := context.Background()
	used := func(want int64) {
		t.Helper()
		if bytes, _ := quota.Usage(); bytes != want {
			t.Errorf("%d bytes are counted, want %d", bytes, want)
		}
	}
	open := func(name string, flags uint32) *server.ViewFile {
		t.Helper()
		f, err := view.Open(ctx, name, flags, wire.Attrs{})
		b.must(err)
		return f
	}
	f := open("/f", truncate)
	b.at(f, 0, text(6*partSize))
	b.must(f.Close())
	used(6 * partSize)

	f = open("/f", truncate)
	b.at(f, 0, text(partSize))
	b.must(f.Close())
	used(partSize)
	f = open("/g.filepart", truncate)
	b.at(f, 0, text(9*partSize))
	_, err = f.WriteAt([]byte("more"), 9*partSize)
	b.is(err, server.ErrQuota)
	b.must(f.Setstat(sized(9 * partSize)))
	b.must(f.Close())
	b.must(view.PosixRename(ctx, "/g.filepart", "/f"))
	used(9 * partSize)
	b.must(view.Remove(ctx, "/f"))
	used(0)
}

// TestRecount: a count finds what is being written, and what was abandoned, as the quota itself
// counts them.
func TestRecount(t *testing.T) {
	b := newBench(t)
	quota := server.NewQuota(10*partSize, 0)
	view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
	b.must(err)
	ctx := context.Background()
	same := func(bytes, files int64) { t.Helper(); b.counts(quota, bytes, files) }
	b.must(view.Mkdir(ctx, "/d", wire.Attrs{}))
	open := func(name string, flags uint32) *server.ViewFile {
		t.Helper()
		f, err := view.Open(ctx, name, flags, wire.Attrs{})
		b.must(err)
		return f
	}
	f := open("/d/f", truncate)
	b.at(f, 0, text(4*partSize))
	same(4*partSize, 2)
	b.must(f.Abandon(io.ErrUnexpectedEOF))
	same(3*partSize, 2) // the last part is not gone on with
	f = open("/d/f", wire.OpenWrite|wire.OpenCreate)
	b.at(f, 3*partSize, text(2*partSize))
	same(5*partSize, 2)
	b.must(f.Abandon(io.ErrUnexpectedEOF))
	f = open("/d/f", truncate)
	b.at(f, 0, text(9*partSize))
	b.must(f.Close())
	same(9*partSize, 2)
	b.must(view.Remove(ctx, "/d/f"))
	same(0, 1)
}

// TestUploadBeyondQuota: of an upload that was more than the quota allows nothing is kept, so that
// the next one has room; of one that ended for another reason it is.
func TestUploadBeyondQuota(t *testing.T) {
	for name, test := range map[string]struct {
		size, kept int64
		err        error
	}{
		"too long":  {5*partSize + 1, 0, server.ErrQuota},
		"abandoned": {5 * partSize, 4 * partSize, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b, ctx := newBench(t), context.Background()
			quota := server.NewQuota(5*partSize, 0)
			view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
			b.must(err)
			f, err := view.Open(ctx, "/f", truncate, wire.Attrs{})
			b.must(err)
			b.at(f, 0, text(5*partSize))
			_, err = f.WriteAt([]byte(text(int(test.size-5*partSize))), 5*partSize)
			b.is(err, test.err)
			b.must(f.Abandon(cmp.Or(test.err, io.ErrUnexpectedEOF)))
			for _, when := range []string{"before", "after"} {
				if bytes, _ := quota.Usage(); bytes != test.kept {
					t.Errorf("%s a count %d bytes are kept, want %d", when, bytes, test.kept)
				}
				b.must(quota.Recount(ctx, b.fs, "/"))
			}
			info, err := view.Stat(ctx, "/f")
			if test.kept == 0 {
				b.is(err, fs.ErrNotExist)
			} else if err != nil || info.Size() != test.kept {
				t.Errorf("STAT: %v, %v, want %d bytes", info, err, test.kept)
			}
		})
	}
}

// noAbort is storage that fails to remove uploads.
type noAbort struct{ objectfs.Bucket }

func (noAbort) Abort(context.Context, string, string) error { return errFault }

// TestLeftoverBesideFile: what the storage has not removed of an abandoned upload is not listed
// beside the file that has its name, and goes with it.
func TestLeftoverBesideFile(t *testing.T) {
	for _, name := range []string{"a", "a.filepart"} {
		b := newBench(t)
		b.put("/"+name, "old")
		f, err := b.serve(noAbort{b.bucket}).Open(t.Context(), "/"+name, truncate, wire.Attrs{})
		b.must(err)
		b.at(f.(writer), 0, text(4*partSize))
		b.is(f.(writer).Abandon(), errFault)
		quota := server.NewQuota(0, 0)
		counts := func(bytes, files int64) {
			t.Helper()
			b.must(quota.Recount(t.Context(), b.fs, "/"))
			if b, f := quota.Usage(); b != bytes || f != files {
				t.Errorf("%s: %d bytes in %d files, want %d in %d", name, b, f, bytes, files)
			}
		}
		counts(3, 1)
		if listed := b.list("/"); !slices.Equal(listed, []string{name}) {
			t.Errorf("%q is listed as %q", name, listed)
		}
		view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
		b.must(err)
		b.must(view.Remove(t.Context(), "/"+name))
		if bytes, files := quota.Usage(); bytes != 0 || files != 0 {
			t.Errorf("%s: %d bytes in %d files are left", name, bytes, files)
		}
		counts(0, 0)
	}
}

// ledger is an account that several servers share, of which nothing is cut off.
type ledger struct{ now server.Usage }

func (l *ledger) Reserve(_ context.Context, bytes, files int64) error {
	l.Settle(bytes, files)
	return nil
}

func (l *ledger) Settle(bytes, files int64) {
	l.now.Bytes, l.now.Files = l.now.Bytes+bytes, l.now.Files+files
}

func (l *ledger) Usage() server.Usage { return l.now }

// TestSweepFreesQuota: what is swept counts no longer, once, even if it takes several attempts or
// another server sweeps at the same time; what is left goes on counting.
func TestSweepFreesQuota(t *testing.T) {
	b, ctx, account := newBench(t), t.Context(), &ledger{}
	quota := server.NewQuotaOf(account)
	view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
	b.must(err)
	begin := func(name string, parts int) *server.ViewFile {
		f, err := view.Open(ctx, name, truncate, wire.Attrs{})
		b.must(err)
		b.at(f, 0, text(parts*partSize))
		return f
	}
	b.must(begin("/whole", 1).Close())
	b.must(begin("/abandoned", 4).Abandon(io.ErrUnexpectedEOF))
	b.must(begin("/closed.filepart", 5).Close())
	open := begin("/open", 4) // more than are in memory, so that the upload has begun
	has := func(when string, parts, files int64) {
		t.Helper()
		if now := account.Usage(); now.Bytes != parts*partSize || now.Files != files {
			t.Errorf("%s: %d bytes in %d files count, want %d in %d", when, now.Bytes, now.Files,
				parts*partSize, files)
		}
	}
	has("at first", 1+3+5+4, 4)
	b.must(b.fs.Sweep(ctx, time.Hour, quota))
	has("when nothing is old", 1+3+5+4, 4)
	b.is(b.serve(noAbort{b.bucket}).Sweep(ctx, -time.Hour, quota), errFault)
	has("when nothing can be removed", 1+3+5+4, 4)
	other := objectfs.New(b.bucket, &objectfs.Options{State: returning{b.state, func() {
		b.must(b.fs.Sweep(ctx, -time.Hour, quota))
	}}})
	b.must(other.Sweep(ctx, -time.Hour, server.NewQuotaOf(account)))
	has("after two sweeps", 1+4, 2)
	b.must(open.Close())
	has("in the end", 1+4, 2)
}

// abortsTwice is a bucket whose answer to the first request to drop an upload is always lost.
type abortsTwice struct{ objectfs.Bucket }

func (a abortsTwice) Abort(ctx context.Context, key, id string) error {
	a.Bucket.Abort(ctx, key, id)
	return a.Bucket.Abort(ctx, key, id)
}

// TestSweepUnanswered: what is swept counts no longer although the storage says, when it is asked
// again, that it was gone.
func TestSweepUnanswered(t *testing.T) {
	b, ctx, quota := newBench(t), t.Context(), server.NewQuota(0, 0)
	b.put("/f.filepart", text(4*partSize))
	w := b.write("/g", truncate)
	b.at(w, 0, text(4*partSize))
	b.must(w.Abandon())
	b.must(quota.Recount(ctx, b.fs, "/"))
	b.must(b.serve(abortsTwice{b.bucket}).Sweep(ctx, -time.Hour, quota))
	if bytes, files := quota.Usage(); bytes != 0 || files != 0 {
		t.Errorf("%d bytes in %d files count", bytes, files)
	}
}

// TestSweepBesideFile: what is left of an upload beside the file that has its name does not count,
// and does not take the file's place in the quota when it is swept.
func TestSweepBesideFile(t *testing.T) {
	b := newBench(t)
	b.put("/f", "old")
	f, err := b.serve(noAbort{b.bucket}).Open(t.Context(), "/f", truncate, wire.Attrs{})
	b.must(err)
	b.at(f.(writer), 0, text(4*partSize))
	b.is(f.(writer).Abandon(), errFault)
	quota := server.NewQuota(0, 0)
	b.must(quota.Recount(t.Context(), b.fs, "/"))
	b.must(b.fs.Sweep(t.Context(), -time.Hour, quota))
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	if bytes, files := quota.Usage(); bytes != 3 || files != 1 {
		t.Errorf("%d bytes in %d files count, want 3 in 1", bytes, files)
	}
}

// TestRmdirOfLeftovers: a directory that holds nothing but leftovers of uploads is removed with
// them. They count no longer, and cannot be gone on with.
func TestRmdirOfLeftovers(t *testing.T) {
	b, ctx, quota := newBench(t), t.Context(), server.NewQuota(0, 0)
	view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
	b.must(err)
	b.must(view.Mkdir(ctx, "/d", wire.Attrs{}))
	f, err := view.Open(ctx, "/d/f", truncate, wire.Attrs{})
	b.must(err)
	b.at(f, 0, text(4*partSize))
	b.must(f.Abandon(io.ErrUnexpectedEOF))
	b.must(view.Rmdir(ctx, "/d"))
	if n := b.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	b.missing("/d/f")
	if bytes, files := quota.Usage(); bytes != 0 || files != 0 {
		t.Errorf("%d bytes in %d files count", bytes, files)
	}
}

// TestStoredButNotCounted: what is kept of uploads counts, but for a few parts each. A user cannot
// fill the storage with parts beyond a gap, or with those that a shorter file no longer has.
func TestStoredButNotCounted(t *testing.T) {
	const most = 40
	ctx := context.Background()
	cutOff := func(f *server.ViewFile) {
		if _, err := f.WriteAt([]byte(text(20*partSize)), 0); err == nil { // there is room
			f.Setstat(sized(2 * partSize))
		}
	}
	for name, upload := range map[string]func(b *bench, open func(flags uint32) *server.ViewFile){
		"beyond a gap": func(b *bench, open func(flags uint32) *server.ViewFile) {
			f := open(truncate)
			b.at(f, 0, text(2*partSize))
			b.at(f, 3*partSize, text(20*partSize))
			b.must(f.Abandon(io.ErrUnexpectedEOF))
		},
		"beyond gaps, one after the other": func(b *bench, open func(flags uint32) *server.ViewFile) {
			f := open(truncate)
			b.at(f, 0, text(2*partSize))
			b.must(f.Abandon(io.ErrUnexpectedEOF))
			for i := range int64(10) {
				f := open(wire.OpenWrite | wire.OpenCreate)
				b.at(f, (3+2*i)*partSize, text(2*partSize))
				b.must(f.Abandon(io.ErrUnexpectedEOF))
			}
		},
		"cut off": func(b *bench, open func(flags uint32) *server.ViewFile) {
			f := open(truncate)
			cutOff(f)
			f.Abandon(io.ErrUnexpectedEOF)
		},
		"cut off and closed": func(b *bench, open func(flags uint32) *server.ViewFile) {
			f := open(truncate)
			cutOff(f)
			f.Close()
		},
		"cut off and still open": func(b *bench, open func(flags uint32) *server.ViewFile) {
			cutOff(open(truncate))
		},
		"started over and closed": func(b *bench, open func(flags uint32) *server.ViewFile) {
			f := open(truncate)
			b.at(f, 0, text(20*partSize))
			b.must(f.Abandon(io.ErrUnexpectedEOF))
			f = open(wire.OpenWrite | wire.OpenCreate)
			b.at(f, 0, text(2*partSize))
			f.Close()
		},
		"emptied and still open": func(b *bench, open func(flags uint32) *server.ViewFile) {
			f := open(truncate)
			b.at(f, 0, text(20*partSize))
			b.must(f.Setstat(sized(0)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			quota := server.NewQuota(most*partSize, 0)
			view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
			b.must(err)
			for i := range 10 {
				upload(b, func(flags uint32) *server.ViewFile {
					f, err := view.Open(ctx, fmt.Sprintf("/%d.filepart", i), flags, wire.Attrs{})
					b.must(err)
					return f
				})
			}
			stored := int64(0)
			started, _, err := b.bucket.ListUploads(ctx, "", "")
			b.must(err)
			for _, one := range started {
				parts, _, err := b.bucket.ListParts(ctx, one.Key, one.ID, 0)
				b.must(err)
				for _, p := range parts {
					stored += p.Size
				}
			}
			if counted, _ := quota.Usage(); stored > 8*counted {
				t.Errorf("%d parts are stored, and %d count", stored/partSize, counted/partSize)
			}
		})
	}
}

// TestLengthSetAfterStartingOver: scp starts an interrupted upload over without TRUNC, and at the end
// sets the length that the file has by then. That cuts off nothing, even if more had been uploaded.
func TestLengthSetAfterStartingOver(t *testing.T) {
	b := newBench(t)
	f := b.write("/f", truncate)
	b.at(f, 0, text(20*partSize))
	b.must(f.Abandon())
	shorter := text(2*partSize + 1)
	f = b.write("/f", wire.OpenWrite|wire.OpenCreate)
	b.at(f, 0, shorter)
	b.must(f.Setstat(sized(int64(len(shorter)))))
	b.must(f.Close())
	b.holds("/f", shorter)
}
