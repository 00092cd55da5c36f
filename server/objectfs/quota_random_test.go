package objectfs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
