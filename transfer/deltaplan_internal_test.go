package transfer

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"
)

// TestPlanOfListThatEndsEarly: a new file that shrinks while it is listed, or whose host says so,
// has a plan up to its former end all the same.
func TestPlanOfListThatEndsEarly(t *testing.T) {
	t.Parallel()
	const length, count = fineChunk, 4096
	for _, listed := range []int{0, 1, 100, 300, 3000, count - 1} {
		lists := func(upTo, differs int) lister {
			return func(ctx context.Context, _ int, from, to int64) iter.Seq2[chunk, error] {
				return func(yield func(chunk, error) bool) {
					for i := range upTo {
						c := chunk{off: int64(i) * length, length: length}
						c.sum[0], c.sum[1] = byte(i), byte(i>>8)
						if i >= differs {
							c.sum[2] = 1
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
		j := &job{ctx: t.Context()}
		j.options.Delta = DeltaAlways
		d := &delta{copy: &fileCopy{job: j}, shortest: length}
		p, err := d.plan(0, count*length, fresh, old, count*length)
		if err != nil {
			t.Fatalf("%d chunks: %v", listed, err)
		}
		at := int64(0)
		err = p.each(func(e extent) bool {
			if e.off != at || e.length <= 0 {
				t.Errorf("%d chunks: after %d comes %+v", listed, at, e)
			}
			at = e.end()
			return true
		})
		if p.stop(); err != nil || at != count*length {
			t.Errorf("%d chunks: the plan ends at %d, with %v", listed, at, err)
		}
	}
}

// TestInterruptedReaderHasNotEnded: the cause of an interruption may be that a host met the end of
// another file.
func TestInterruptedReaderHasNotEnded(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{io.EOF, errNoDelta} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		data := strings.NewReader("data")
		for _, r := range []io.Reader{interruptibleReader{ctx, data},
			io.NewSectionReader(interruptibleAt{ctx, data}, 0, data.Size())} {
			_, err := io.ReadAll(r)
			if err == nil || cause != io.EOF && !errors.Is(err, cause) {
				t.Errorf("interrupted by %v, %T says %v", cause, r, err)
			}
		}
	}
}
