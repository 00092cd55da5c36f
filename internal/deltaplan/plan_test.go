package deltaplan

import (
	"context"
	"iter"
	"testing"
)

// TestPlanOfListThatEndsEarly: a new file that shrinks while it is listed, or whose host says so,
// has a plan up to its former end all the same.
func TestPlanOfListThatEndsEarly(t *testing.T) {
	t.Parallel()
	const length, count = fineChunk, 4096
	for _, listed := range []int{0, 1, 100, 300, 3000, count - 1} {
		lists := func(upTo, differs int) Lister {
			return func(ctx context.Context, _ int, from, to int64) iter.Seq2[Chunk, error] {
				return func(yield func(Chunk, error) bool) {
					for i := range upTo {
						c := Chunk{Off: int64(i) * length, Length: length}
						c.Sum[0], c.Sum[1] = byte(i), byte(i>>8)
						if i >= differs {
							c.Sum[2] = 1
						}
						if !yield(c, ctx.Err()) {
							return
						}
					}
				}
			}
		}
		// a few chunks that the old file lacks are no reason to await the lists
		fresh, old := lists(listed, listed-2), lists(count, count)
		versions := Versions{New: fresh, Old: old, OldSize: count * length, Shortest: length,
			Always: true}
		p, err := versions.Plan(t.Context(), 0, count*length)
		if err != nil {
			t.Fatalf("%d chunks: %v", listed, err)
		}
		at := int64(0)
		err = p.Each(func(e Extent) bool {
			if e.Off != at || e.Length <= 0 {
				t.Errorf("%d chunks: after %d comes %+v", listed, at, e)
			}
			at = e.End()
			return true
		})
		if p.Stop(); err != nil || at != count*length {
			t.Errorf("%d chunks: the plan ends at %d, with %v", listed, at, err)
		}
	}
}
