package objectfs_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// TestQuotaKeepsCount does random things with files of several parts, some of which end half way,
// while the storage fails now and then, and compares the count with what a walk finds.
func TestQuotaKeepsCount(t *testing.T) {
	kept := 0
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b, ctx, random := newBench(t), context.Background(), rand.New(rand.NewPCG(seed, 4))
			storage := &faulty{Bucket: b.bucket}
			files := b.serve(storage)
			const mostBytes, mostFiles = 20 * partSize, 6
			quota := server.NewQuota(mostBytes, mostFiles)
			view, err := server.NewView(files, &server.Policy{Quota: quota})
			b.must(err)
			name := func() string {
				return "/" + []string{"a", "b", "c", "a.filepart"}[random.IntN(4)]
			}
			size := func() int64 { return random.Int64N(7 * partSize) }
			for step := range 300 {
				fault := func() {}
				if random.IntN(3) == 0 {
					fault = func() { storage.call, storage.broken = 0, 1+random.IntN(4) }
				}
				storage.name = ""
				done := ""
				switch from, to := name(), name(); random.IntN(7) {
				case 0:
					done = fmt.Sprint("remove ", from, " ", view.Remove(ctx, from))
				case 1:
					done = fmt.Sprint("rename ", from, " ", to, " ", view.PosixRename(ctx, from, to))
				case 2:
					done = fmt.Sprint("cut ", from, " ", view.Setstat(ctx, from, sized(size())))
				case 3:
					done = fmt.Sprint("sweep ", files.Sweep(ctx, -time.Hour, quota))
				default:
					flags := []uint32{create, truncate, wire.OpenWrite,
						wire.OpenAppend | wire.OpenCreate,
						truncate | wire.OpenExclusive}[random.IntN(5)]
					f, err := view.Open(ctx, from, flags, wire.Attrs{})
					if done = fmt.Sprint("open ", from, " ", flags, " ", err); err != nil {
						break
					}
					fault()
					offset := size() * int64(random.IntN(2))
					for range random.IntN(4) {
						piece := []byte(text(int(size() / 2)))
						if _, err = f.WriteAt(piece, offset); err != nil {
							done += fmt.Sprint(" write ", err)
							break
						}
						offset += int64(len(piece))
					}
					if err != nil || random.IntN(3) == 0 {
						done += fmt.Sprint(" abandon ", f.Abandon(err))
					} else {
						done += fmt.Sprint(" close ", f.Close())
					}
				}
				storage.broken = 0
				before, beforeFiles := quota.Usage()
				b.must(quota.Recount(ctx, files, "/"))
				bytes, number := quota.Usage()
				// What is left is not known if the storage does not say, or does not remove it.
				known := !slices.Contains([]string{"Head", "List", "ListParts", "Abort"}, storage.name)
				if known && (bytes != before || number != beforeFiles) && step > 0 {
					t.Fatalf("step %d, %s, broken %q: %d bytes in %d files were kept, %d in %d are "+
						"there", step, done, storage.name, before, beforeFiles, bytes, number)
				}
				if info, err := files.Stat(ctx, "/a"); err == nil && info.Size() > 0 {
					if _, err := files.Open(ctx, "/a", wire.OpenRead, wire.Attrs{}); err != nil {
						kept++
					}
				}
			}
		})
	}
	if kept == 0 {
		t.Error("nothing was ever kept of an upload that was abandoned")
	}
}

// TestQuotaOfConcurrentChanges: the count is right after several clients have written, removed and
// renamed the same few files at once.
func TestQuotaOfConcurrentChanges(t *testing.T) {
	for name, operations := range map[string]string{
		"writes": "w", "removals": "wr", "renames": "wn", "uploads": "wat", "all": "watrns",
	} {
		for _, most := range []int{1000, 4 * partSize} {
			t.Run(fmt.Sprintf("%s of %d bytes", name, most), func(t *testing.T) {
				b, ctx := newBench(t), context.Background()
				quota := server.NewQuota(1<<40, 1<<20)
				var all sync.WaitGroup
				for seed := range uint64(4) {
					view, err := server.NewView(b.fs, &server.Policy{Quota: quota})
					b.must(err)
					all.Go(func() {
						random := rand.New(rand.NewPCG(seed, 1))
						for range 300 {
							operation := operations[random.IntN(len(operations))]
							changeAtRandom(ctx, view, random, operation, most)
						}
					})
				}
				all.Wait()
				b.keeps(quota, "after all changes")
			})
		}
	}
}

// changeAtRandom makes one change, which fails if another client has the file or has removed it.
func changeAtRandom(ctx context.Context, view *server.View, random *rand.Rand, operation byte,
	most int) {
	name, other := fmt.Sprint("/", random.IntN(2)), fmt.Sprint("/", random.IntN(2))
	switch operation {
	case 'r':
		view.Remove(ctx, name)
	case 'n':
		view.PosixRename(ctx, name, other)
	case 's':
		view.Setstat(ctx, name, sized(random.Int64N(int64(most))))
	default:
		if operation == 't' {
			other = name
			name += ".filepart"
		}
		flags := []uint32{truncate, create}[random.IntN(2)]
		f, err := view.Open(ctx, name, flags, wire.Attrs{})
		if err != nil {
			return
		}
		contents := make([]byte, most/(1+random.IntN(3))) // often equal to another's
		f.WriteAt(contents, 0)
		if operation == 'a' {
			f.Abandon(io.ErrUnexpectedEOF)
			return
		}
		f.Close()
		if operation == 't' {
			view.PosixRename(ctx, name, other)
		}
	}
}
