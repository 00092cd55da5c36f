package localfs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/localfs"
)

func random(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

// create makes a file that can be read and written.
func create(t *testing.T, data []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func contents(t *testing.T, f *os.File) []byte {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// plans are all ways, and what Choose makes of it.
var plans = []localfs.Plan{
	{},
	{Move: localfs.Clone, Hash: localfs.Reread},
	{Move: localfs.Kernel, Hash: localfs.Reread},
	{Move: localfs.Read, Hash: localfs.Reread},
	{Move: localfs.Read, Hash: localfs.Tee}, {Move: localfs.Read, Hash: localfs.TeeAside},
}

func TestEveryWay(t *testing.T) {
	for _, size := range []int{0, 1, 4096, 256 << 10, 256<<10 + 1, 9<<20 + 7} {
		data := random(size)
		sum := sha256.Sum256(data)
		src := create(t, data)
		for _, plan := range plans {
			t.Run(fmt.Sprintf("%d bytes, move %s, hash %s", size, plan.Move, plan.Hash), func(t *testing.T) {
				dst, h := create(t, nil), sha256.New()
				var told int64
				n, err := localfs.Copy(context.Background(), dst, src,
					localfs.Options{Plan: plan, Hash: h, Piece: 1 << 20,
						Each: func(n int64) error { told += n; return nil }})
				if err != nil || n != int64(size) || told != n {
					t.Fatalf("%d bytes, %d told, %v", n, told, err)
				}
				if !bytes.Equal(contents(t, dst), data) {
					t.Error("the copy differs")
				}
				if !bytes.Equal(h.Sum(nil), sum[:]) {
					t.Error("the hash differs")
				}
			})
		}
	}
}

// TestRanges copies within larger files: what lies around the target's range stays.
func TestRanges(t *testing.T) {
	data, old := random(3<<20), random(5<<20)
	src := create(t, data)
	for _, plan := range plans {
		for _, r := range []struct{ from, length, to, want int64 }{
			{0, 10, 4 << 20, 10}, {4095, 1 << 20, 3, 1 << 20}, {1 << 20, 0, 17,
				2 << 20}, {3<<20 - 5, 100, 5 << 20, 5}, {4 << 20, 1, 0, 0},
		} {
			dst, h := create(t, old), sha256.New()
			n, err := localfs.Copy(context.Background(), dst, src,
				localfs.Options{Plan: plan, Hash: h, From: r.from, To: r.to, Length: r.length})
			if err != nil || n != r.want {
				t.Fatalf("%v %v: %d, %v", plan, r, n, err)
			}
			piece := data[min(r.from, int64(len(data))):][:r.want]
			want := append(bytes.Clone(old), make([]byte, max(0, r.to+r.want-int64(len(old))))...)
			copy(want[r.to:], piece)
			if !bytes.Equal(contents(t, dst), want) {
				t.Errorf("%v %v: the target differs", plan, r)
			}
			if sum := sha256.Sum256(piece); !bytes.Equal(h.Sum(nil), sum[:]) {
				t.Errorf("%v %v: the hash differs", plan, r)
			}
		}
	}
}

func TestStops(t *testing.T) {
	src := create(t, random(4<<20))
	stop := errors.New("enough")
	for _, plan := range plans[2:] {
		dst := create(t, nil)
		n, err := localfs.Copy(context.Background(), dst, src,
			localfs.Options{Plan: plan, Hash: sha256.New(), Piece: 1 << 20,
				Each: func(int64) error { return stop }})
		if !errors.Is(err, stop) || n != 1<<20 {
			t.Errorf("%v: %d, %v", plan, n, err)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		n, err = localfs.Copy(ctx, dst, src,
			localfs.Options{Plan: plan, Hash: sha256.New(), Piece: 1 << 20,
				Each: func(int64) error { cancel(stop); return nil }})
		if !errors.Is(err, stop) || n != 1<<20 {
			t.Errorf("%v, context: %d, %v", plan, n, err)
		}
	}
}

// brokenHash fails in the middle.
type brokenHash struct{ n int }

var errHash = errors.New("the hash is broken")

func (b *brokenHash) Write(p []byte) (int, error) {
	if b.n -= len(p); b.n < 0 {
		return 0, errHash
	}
	return len(p), nil
}

func TestFailures(t *testing.T) {
	src := create(t, random(4<<20))
	closed := create(t, nil)
	closed.Close()
	readOnly, err := os.Open(create(t, nil).Name())
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	for _, plan := range plans {
		if _, err := localfs.Copy(context.Background(), create(t, nil), src,
			localfs.Options{Plan: plan, Hash: &brokenHash{1 << 20}}); !errors.Is(err, errHash) {
			t.Errorf("%v: a broken hash: %v", plan, err)
		}
		if _, err := localfs.Copy(context.Background(), closed, src,
			localfs.Options{Plan: plan, Hash: io.Discard}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%v: a closed target: %v", plan, err)
		}
		if _, err := localfs.Copy(context.Background(), readOnly, src,
			localfs.Options{Plan: plan, Hash: io.Discard}); err == nil {
			t.Errorf("%v: wrote a file that is open for reading", plan)
		}
	}
}

func TestChoose(t *testing.T) {
	type facts = localfs.Facts
	for _, c := range []struct {
		facts facts
		want  localfs.Plan
	}{
		{facts{Size: 1 << 30, Whole: true, Hash: true, Processors: 2},
			localfs.Plan{Move: localfs.Clone, Hash: localfs.Reread}},
		{facts{Size: 1 << 30, Whole: true, NoClone: true},
			localfs.Plan{Move: localfs.Read, Hash: localfs.Tee}},
		{facts{Size: 1 << 30, Whole: true, NoClone: true, Remote: true, Hash: true},
			localfs.Plan{Move: localfs.Kernel, Hash: localfs.Reread}},
		{facts{Size: 1 << 30}, localfs.Plan{Move: localfs.Kernel, Hash: localfs.Reread}},
		{facts{Size: 1 << 30, NoKernel: true, Whole: true, Remote: true},
			localfs.Plan{Move: localfs.Read, Hash: localfs.Tee}},
		{facts{Size: 10e3, Hash: true, Processors: 2},
			localfs.Plan{Move: localfs.Read, Hash: localfs.Tee}},
		{facts{Size: 100e6, Hash: true, Processors: 1},
			localfs.Plan{Move: localfs.Read, Hash: localfs.Tee}},
		{facts{Size: 100e6, Hash: true, Processors: 2},
			localfs.Plan{Move: localfs.Read, Hash: localfs.TeeAside}},
	} {
		if got := localfs.Choose(c.facts); got != c.want {
			t.Errorf("%+v: %v, want %v", c.facts, got, c.want)
		}
	}
}

func ExampleCopy() {
	dir, err := os.MkdirTemp("", "filecopy-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.WriteFile(filepath.Join(dir, "a"), []byte("hello\n"), 0o600)
	src, err := os.Open(filepath.Join(dir, "a"))
	if err != nil {
		panic(err)
	}
	defer src.Close()
	dst, err := os.Create(filepath.Join(dir, "b"))
	if err != nil {
		panic(err)
	}
	defer dst.Close()
	h := sha256.New()
	n, err := localfs.Copy(context.Background(), dst, src, localfs.Options{Hash: h})
	fmt.Printf("%d %x %v\n", n, h.Sum(nil)[:4], err)
	// Output: 6 5891b5b5 <nil>
}
