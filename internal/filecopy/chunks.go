package filecopy

import (
	"context"
	"io"
	"iter"
	"math"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/cdc"
	"github.com/usftp/usftp/internal/deltaplan"
	"github.com/usftp/usftp/internal/hashpipe"
	"github.com/usftp/usftp/wire"
)

// A chunking says how to split two versions of a file.
type chunking struct {
	algorithm checksum.Algorithm
	shortest  int
}

// plans compares two versions of a file. It plans the first window, and returns the planner of the
// others.
func (d *chunking) plans(c *Copy, fresh, old deltaplan.Lister, oldSize int64) (
	first *deltaplan.Plan, planned planner, err error) {
	v := &deltaplan.Versions{New: fresh, Old: old, OldSize: oldSize, Shortest: d.shortest,
		Always: c.Options.Delta == DeltaAlways}
	planned = func(from int64) (*deltaplan.Plan, error) {
		return v.Plan(c.Ctx, from, windowEnd(from, c.Size))
	}
	first, err = planned(c.Result.Resumed)
	return first, planned, err
}

// remote returns a lister of a file's chunks on the host.
func (d *chunking) remote(f *usftp.File) deltaplan.Lister {
	return func(ctx context.Context, shortest int, from, to int64) iter.Seq2[deltaplan.Chunk, error] {
		return func(yield func(deltaplan.Chunk, error) bool) {
			if from >= to {
				return
			}
			for c, err := range f.WithContext(ctx).Chunks(usftp.ListChunks{
				Algorithm: hostName(d.algorithm), Shortest: shortest, Offset: from,
				Length: to - from}) {
				if !yield(deltaplan.Chunk{Off: c.Offset, Length: int32(c.Length),
					Sum: c.Sum}, err) {
					return
				}
			}
		}
	}
}

// local returns a lister of a local file's chunks.
func (d *chunking) local(file io.ReaderAt) deltaplan.Lister {
	return func(ctx context.Context, shortest int, from, to int64) iter.Seq2[deltaplan.Chunk, error] {
		return func(yield func(deltaplan.Chunk, error) bool) {
			at := from
			cutter, err := cdc.NewCutter(interruptibleReader{ctx,
				io.NewSectionReader(file, from, math.MaxInt64-from)}, shortest,
				d.algorithm.New(), make([]byte, 16*shortest))
			for err == nil && at < to {
				var c wire.Chunk
				if c, err = cutter.Next(); err == nil {
					if !yield(deltaplan.Chunk{Off: at, Length: int32(c.Length), Sum: c.Sum}, nil) {
						return
					}
					at += int64(c.Length)
				}
			}
			if err != nil && err != io.EOF {
				yield(deltaplan.Chunk{}, err)
			}
		}
	}
}

// hashed acts like local for the source of an upload, but also hashes the listed bytes as a part of
// the file, so that it is read once.
func (d *chunking) hashed(file io.ReaderAt, size int64, pipe *hashpipe.Pipe) deltaplan.Lister {
	again := d.local(file)
	once := d.local(pipe.ReaderAt(io.NewSectionReader(file, 0, size)))
	return func(ctx context.Context, shortest int, from, to int64) iter.Seq2[deltaplan.Chunk, error] {
		if shortest != d.shortest { // a place is refined
			return again(ctx, shortest, from, to)
		}
		return once(ctx, shortest, from, to)
	}
}
