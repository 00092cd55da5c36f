package localfs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/testenv"
)

// holey makes a file with a hole in front, in between and at the end, and returns what it holds.
func holey(t *testing.T) (*os.File, []byte) {
	t.Helper()
	f := create(t, nil)
	data := make([]byte, 8<<20)
	for _, off := range []int{1 << 20, 3 << 20, 5<<20 + 100} {
		copy(data[off:], random(100<<10))
		if _, err := f.WriteAt(data[off:off+100<<10], int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(len(data))); err != nil {
		t.Fatal(err)
	}
	if stored(t, f) > 1<<20 {
		testenv.Unavailable(t, "a file system that keeps holes")
	}
	return f, data
}

func stored(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return localfs.Stored(info)
}

func TestHolesStay(t *testing.T) {
	src, data := holey(t)
	sum := sha256.Sum256(data)
	for _, plan := range plans {
		dst, h := create(t, nil), sha256.New()
		n, err := localfs.Copy(context.Background(), dst, src,
			localfs.Options{Plan: plan, Hash: h})
		if err != nil || n != int64(len(data)) || !bytes.Equal(contents(t, dst), data) ||
			!bytes.Equal(h.Sum(nil), sum[:]) {
			t.Errorf("%v: %d bytes, %v, or the contents or the hash differ", plan, n, err)
		}
		if room := stored(t, dst); room > 1<<20 {
			t.Errorf("%v: the copy takes %d bytes", plan, room)
		}
		// Over what is there already the holes are made.
		old := random(9 << 20)
		dst = create(t, old)
		before := stored(t, dst) // some file systems have taken more than they need
		n, err = localfs.Copy(context.Background(), dst, src,
			localfs.Options{Plan: plan, To: 8192})
		want := bytes.Clone(old)
		copy(want[8192:], data)
		if err != nil || n != int64(len(data)) || !bytes.Equal(contents(t, dst), want) {
			t.Errorf("%v: over an old file: %d, %v, or the contents differ", plan, n, err)
		}
		if freed := before - stored(t, dst); freed < 6<<20 {
			t.Errorf("%v: over an old file: %d bytes were freed", plan, freed)
		}
	}
}

func TestZerosBecomeHoles(t *testing.T) {
	_, data := holey(t)
	src := create(t, data)
	dst, h := create(t, nil), sha256.New()
	n, err := localfs.Copy(context.Background(), dst, src, localfs.Options{Zeros: true, Hash: h})
	sum := sha256.Sum256(data)
	if err != nil || n != int64(len(data)) || !bytes.Equal(contents(t, dst), data) ||
		!bytes.Equal(h.Sum(nil), sum[:]) {
		t.Errorf("%d bytes, %v, or the contents or the hash differ", n, err)
	}
	if room := stored(t, dst); room > 1<<20 {
		t.Errorf("the copy takes %d bytes", room)
	}
}

func TestExtents(t *testing.T) {
	f, data := holey(t)
	holes := localfs.FindHoles(f)
	for off := int64(0); off < int64(len(data)); {
		to, hole := holes.Extent(off)
		to = min(to, int64(len(data)))
		if hole && !bytes.Equal(data[off:to], make([]byte, to-off)) {
			t.Errorf("from %d to %d is no hole", off, to)
		}
		off = to
	}
	if to, hole := holes.Extent(int64(len(data))); hole || to != math.MaxInt64 {
		t.Errorf("behind the end: %d, %v", to, hole)
	}
	end := int64(5<<20+100+100<<10+4095) &^ 4095
	for _, c := range []struct{ before, want int64 }{{8 << 20, end}, {7 << 20, end},
		{5<<20 + 200, 5<<20 + 200}, {1 << 20, 0}, {0, 0}} {
		if got := holes.DataBefore(c.before); got != c.want {
			t.Errorf("before %d: %d, want %d", c.before, got, c.want)
		}
	}
	dense := localfs.FindHoles(create(t, data))
	if to, hole := dense.Extent(0); hole || to != math.MaxInt64 || dense.DataBefore(5) != 5 {
		t.Errorf("a file without holes: %d, %v", to, hole)
	}
}

// TestProc copies a file that says that it is empty, and is not.
func TestProc(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		testenv.Unavailable(t, err)
	}
	src, err := os.Open("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst := create(t, nil)
	if n, err := localfs.Copy(context.Background(), dst, src, localfs.Options{}); err != nil ||
		n != int64(len(want)) || !bytes.Equal(contents(t, dst), want) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestAcross copies from one file system to another.
func TestAcross(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "usftp-test-")
	if err != nil {
		testenv.Unavailable(t, err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data := random(3<<20 + 1)
	src := create(t, data)
	for _, plan := range plans {
		dst, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		n, err := localfs.Copy(context.Background(), dst, src,
			localfs.Options{Plan: plan, Hash: h})
		sum := sha256.Sum256(data)
		if err != nil || n != int64(len(data)) || !bytes.Equal(contents(t, dst), data) ||
			!bytes.Equal(h.Sum(nil), sum[:]) {
			t.Errorf("%v: %d, %v", plan, n, err)
		}
		dst.Close()
	}
}
