package objectfs_test

import (
	"context"
	"maps"
	"testing"

	"github.com/usftp/usftp/wire"
)

// TestCosts: the requests that docs/objects.md counts.
func TestCosts(t *testing.T) {
	ctx := context.Background()
	stored := func(size int) func(b *bench) {
		return func(b *bench) { b.put("/d/f", text(size)) }
	}
	none := func(*bench) {}
	for _, one := range []struct {
		name   string
		before func(b *bench)
		do     func(b *bench)
		calls  map[string]int
	}{
		{"a short new file", none, func(b *bench) { b.put("/d/f", "text") },
			map[string]int{"Head": 1, "List": 1, "Put": 1}},
		{"a short file in place of another", stored(7), func(b *bench) { b.put("/d/f", "text") },
			map[string]int{"Head": 1, "Put": 1}},
		{"a new file of ten parts", none, func(b *bench) { b.put("/d/f", text(10*partSize)) },
			map[string]int{"Head": 1, "List": 1, "CreateUpload": 1, "UploadPart": 10,
				"Complete": 1}},
		{"reading a short file", stored(7), func(b *bench) { b.holds("/d/f", text(7)) },
			map[string]int{"Head": 1, "Get": 1}},
		{"STAT of a file", stored(7), func(b *bench) { b.size("/d/f") }, map[string]int{"Head": 1}},
		{"STAT of what does not exist", none, func(b *bench) { b.missing("/d/f") },
			map[string]int{"Head": 1, "List": 1}},
		{"STAT of a directory", none, func(b *bench) { b.size("/d") },
			map[string]int{"Head": 1, "List": 1}},
		{"a listing of up to 1000 names", stored(7), func(b *bench) { b.list("/d") },
			map[string]int{"Head": 1, "List": 1}},
		{"MKDIR", none, func(b *bench) { b.must(b.fs.Mkdir(ctx, "/d/e", wire.Attrs{})) },
			map[string]int{"Head": 1, "List": 1, "Put": 1}},
		{"RMDIR", none, func(b *bench) { b.must(b.fs.Rmdir(ctx, "/d")) },
			map[string]int{"Head": 1, "List": 2, "Delete": 1}},
		{"REMOVE", stored(7), func(b *bench) { b.must(b.fs.Remove(ctx, "/d/f")) },
			map[string]int{"Head": 1, "Delete": 1}},
		{"SETSTAT of times", stored(7),
			func(b *bench) { b.must(b.fs.Setstat(ctx, "/d/f", timed(7))) },
			map[string]int{"Head": 2}},
		{"RENAME of a temporary name", func(b *bench) { b.put("/d/f.filepart", text(10*partSize)) },
			func(b *bench) { b.must(b.fs.PosixRename(ctx, "/d/f.filepart", "/d/f")) },
			map[string]int{"Head": 2, "List": 2, "ListParts": 1, "Complete": 1}},
		{"RENAME of another file", stored(7),
			func(b *bench) { b.must(b.fs.PosixRename(ctx, "/d/f", "/d/g")) },
			map[string]int{"Head": 3, "List": 1, "Copy": 1, "Delete": 1}},
		{"RENAME of a long file", stored(10 * partSize),
			func(b *bench) { b.must(b.fs.PosixRename(ctx, "/d/f", "/d/g")) },
			map[string]int{"Head": 4, "List": 1, "Copy": 1, "Delete": 1}},
	} {
		t.Run(one.name, func(t *testing.T) {
			b := newBench(t)
			b.must(b.fs.Mkdir(ctx, "/d", wire.Attrs{}))
			one.before(b)
			b.bucket.Calls()
			one.do(b)
			if got := b.bucket.Calls(); !maps.Equal(got, one.calls) {
				t.Errorf("requests: %v, want %v", got, one.calls)
			}
		})
	}
}
