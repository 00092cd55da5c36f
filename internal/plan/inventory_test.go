package plan

import (
	"io/fs"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/soak"
)

// An inventory of a million entries takes little more than 24 bytes each, finds all of them and
// nothing else, and knows which ones the source lacks.
func TestInventoryOfAMillion(t *testing.T) {
	n := soak.Pick(200_000, 1_000_000)
	var text []byte
	name := func(i int) string { // an inventory keeps copies, so all may share their memory
		text = strconv.AppendInt(append(text[:0], "name"...), int64(i), 10)
		return unsafe.String(&text[0], len(text))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := NewInventory(&Folding{Case: func() bool { return localfs.FoldsCase }}, new(Owners))
	at := time.Unix(1_600_000_000, 0)
	for i := range n {
		v.Add(name(i), &endpoint.Info{Mode: 0o640, HasMode: true, HasTimes: true, Size: int64(i),
			Mtime: at.Add(time.Duration(i) * time.Second)})
	}
	v.Sort()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > int64(28*n) {
		t.Errorf("it takes %d bytes", took)
	}
	for i := range n {
		f := endpoint.Info{Mode: 0o640, Size: int64(i), Mtime: at.Add(time.Duration(i) * time.Second),
			HasTimes: true}
		if i%1000 == 0 {
			continue
		}
		h := v.Take(name(i))
		if !h.IsThere() || !h.sameSize(&f) || !h.sameTime(&f, 0) || h.Perm() != 0o640 ||
			h.Kind() != File {
			t.Fatalf("entry %d is %+v", i, h)
		}
	}
	if v.Take("another").IsThere() || v.unseen != n/1000 || !v.IsExtra("name1000") ||
		v.IsExtra("name1") ||
		v.IsExtra("another") {
		t.Errorf("%d entries are left", v.unseen)
	}
	runtime.KeepAlive(v)
}

// A held keeps everything apart that matters, up to its limits.
func TestInventoryEntry(t *testing.T) {
	at := time.Unix(1<<32-1, 0)
	f := endpoint.Info{Mode: fs.ModeDir | 0o755, Size: 1<<48 - 1, Mtime: at, HasTimes: true}
	h := new(Owners).Hold(&f)
	if h.Kind() != Dir || h.Perm() != 0o755 || !h.sameSize(&f) || !h.sameTime(&f, 0) {
		t.Errorf("%+v", h)
	}
	later := f
	later.Mtime = at.Add(2 * time.Second) // beyond what the protocol can express
	if age, known := h.age(&later); !known || age != 2*time.Second ||
		h.sameTime(&later, time.Second) ||
		!h.sameTime(&later, 2*time.Second) {
		t.Errorf("it is %v later", age)
	}
	f.HasTimes = false
	if timeless := new(Owners).Hold(&f); timeless.sameTime(&later, time.Hour) {
		t.Error("an unknown time is the same as another")
	}
	for mode, kind := range map[fs.FileMode]Kind{0: File, fs.ModeSymlink: Link,
		fs.ModeNamedPipe: Other, fs.ModeSocket: Other} {
		if got := new(Owners).Hold(&endpoint.Info{Mode: mode}).Kind(); got != kind {
			t.Errorf("%v is of the kind %d", mode, got)
		}
	}
}

// Owners are told apart exactly, as far as they are known.
func TestInventoryOwners(t *testing.T) {
	var all Owners
	v := NewInventory(&Folding{Case: func() bool { return false }}, &all)
	mine := localfs.Owner{UID: 1, GID: 2, Known: true}
	v.Add("mine", &endpoint.Info{Owner: mine})
	v.Add("whose", &endpoint.Info{})
	v.Sort()
	ours := v.Take("mine")
	nobodys := v.Take("whose")
	for _, test := range []struct {
		existing Held
		owner    localfs.Owner
		same     bool
	}{
		{ours, mine, true},
		{ours, localfs.Owner{UID: 2, GID: 1, Known: true}, false},
		{ours, localfs.Owner{}, true}, // the source does not tell
		{nobodys, mine, false},
	} {
		if got := test.existing.sameOwner(&endpoint.Info{Owner: test.owner}, &all); got != test.same {
			t.Errorf("%+v is owned by %+v: %v", test.existing, test.owner, got)
		}
	}
	if size := unsafe.Sizeof(ours); size != 24 {
		t.Errorf("an entry takes %d bytes", size)
	}
}
