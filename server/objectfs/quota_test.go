package objectfs_test

import (
	"context"
	"testing"

	"github.com/usftp/usftp/server"
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
