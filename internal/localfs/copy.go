// Package localfs has the features that only a local file system has: owners, links, locks, holes,
// temporary names, and the cheapest way to copy one file to another, hashing it on the way; see
// [Copy] and [Choose].
package localfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
)

// Options say which part to copy and how. The zero Options copy the whole file.
type Options struct {
	From, To int64 // offsets in the source and in the target

	// Length is the most to copy, in bytes. 0 means everything.
	Length int64

	// Hash gets the copied data in order, with zeros for holes. Depending on Plan it is called on
	// another goroutine, which has ended when Copy returns. Nil hashes nothing.
	Hash io.Writer

	// Zeros turns 4 KiB blocks of zeros into holes too. Then all data is read and written by this
	// process, since no kernel looks for zeros.
	Zeros bool

	// Piece is the most that is copied between two calls of Each. 0 means 8 MiB.
	Piece int

	// Each is called after each piece with its size in bytes, on the calling goroutine. If it
	// returns an error the copy ends with that error.
	Each func(n int64) error

	// Plan is the way to copy, if possible. The zero Plan leaves it to Choose.
	Plan Plan
}

const (
	usualPiece = 8 << 20

	// bufferSize is the size of one read and one write: more would not fit the processor's nearest
	// caches, less would cost system calls.
	bufferSize = 256 << 10

	// block is the usual granularity of holes.
	block = 4 << 10
)

// Copy copies from src, open for reading, to dst, open for writing without O_APPEND. They must be
// different files, or the ranges must not overlap. Holes of src that the system reports become
// holes in dst. Copy returns how many bytes were copied without a gap; fewer than Length means that
// src ends there. It leaves the offsets of both files undefined. If ctx ends it stops between two
// pieces and returns the cause.
func Copy(ctx context.Context, dst, src *os.File, o Options) (int64, error) {
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	c := &copier{ctx: ctx, dst: dst, src: src, Options: o, in: o.From, end: math.MaxInt64}
	if c.Length > 0 && c.Length < math.MaxInt64-o.From {
		c.end = o.From + o.Length
	}
	if c.Piece <= 0 {
		c.Piece = usualPiece
	}
	c.size = info.Size()
	c.facts = c.look()
	if c.Plan == (Plan{}) {
		c.Plan = Choose(c.facts)
	}
	c.holes = holesOf(src, info)
	err = cmp.Or(c.copy(), c.finishHash())
	return c.done(), err
}

// copier is one copy in progress.
type copier struct {
	ctx      context.Context
	dst, src *os.File
	Options
	in, end int64 // in src: the position, and the latest end
	size    int64 // of src, as reported at the beginning
	facts   Facts
	holes   *Holes
	ended   bool // src has no more
	hasher  *hasher
	buffer  []byte
}

// look gathers the facts for the choice.
func (c *copier) look() Facts {
	return Facts{
		Size: min(c.size, c.end) - c.From, Hash: c.Hash != nil, Whole: c.whole(),
		Processors: runtime.GOMAXPROCS(0),
		// the files of /proc have no size but do have contents
		NoKernel: c.Zeros || c.size == 0,
		Remote:   remote(c.dst),
	}
}

// whole reports whether all of src goes into an empty file.
func (c *copier) whole() bool {
	if c.From != 0 || c.To != 0 || c.end < c.size || c.size == 0 {
		return false
	}
	info, err := c.dst.Stat()
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

func (c *copier) done() int64 { return c.in - c.From }

// out converts an offset of src to one of dst.
func (c *copier) out() int64 { return c.in - c.From + c.To }

func (c *copier) copy() error {
	if c.Plan.Move == Clone {
		if c.facts.Whole && clone(c.dst, c.src) == nil {
			c.in = c.size
			return c.after(c.in)
		}
		c.facts.NoClone = true
		c.Plan = Choose(c.facts)
	}
	hole := false
	for c.in < c.end {
		var to int64
		to, hole = c.holes.Extent(c.in)
		to = min(to, c.end)
		var err error
		more := true
		if hole {
			err = c.leave(to)
		} else {
			more, err = c.move(to)
		}
		if err != nil {
			return err
		}
		if !more || to == math.MaxInt64 || hole && to >= c.size {
			break
		}
	}
	if hole || c.Zeros {
		return c.extend()
	}
	return nil
}

// move copies data up to an offset. more is false if src ends before it.
func (c *copier) move(to int64) (more bool, err error) {
	for c.in < to && !c.ended {
		if c.ctx.Err() != nil {
			return false, context.Cause(c.ctx)
		}
		piece := min(to-c.in, int64(c.Piece))
		var n int64
		if c.Plan.Move == Kernel {
			n, err = copyRange(c.dst, c.src, c.out(), c.in, piece)
			if n == 0 && (err == nil || errors.Is(err, errors.ErrUnsupported)) {
				c.noKernel() // or src has ended
				continue
			}
		} else {
			n, err = c.readAndWrite(piece)
		}
		if err != nil {
			return false, err
		}
		if n == 0 {
			return false, nil
		}
		c.in += n
		if err := c.after(n); err != nil {
			return false, err
		}
	}
	return !c.ended, nil
}

// after reports a piece to Each.
func (c *copier) after(n int64) error {
	if c.Each == nil {
		return nil
	}
	return c.Each(n)
}

// noKernel continues by reading and writing.
func (c *copier) noKernel() {
	if c.facts.NoKernel = true; c.done() == 0 && c.hasher == nil {
		c.Plan = Choose(c.facts)
	}
	c.Plan.Move = Read
}

// hashes reports whether there is a hash and the plan takes it in one of the given ways, and
// prepares it.
func (c *copier) hashes(ways ...Hashing) bool {
	if c.Hash == nil || !slices.Contains(ways, c.Plan.Hash) {
		return false
	}
	if c.hasher == nil {
		c.hasher = newHasher(c)
	}
	return true
}

// readAndWrite copies one piece through this process. It returns 0 at the end of src.
func (c *copier) readAndWrite(piece int64) (done int64, err error) {
	for done < piece {
		buffer := c.room()
		buffer = buffer[:min(int64(len(buffer)), piece-done)]
		n, readErr := c.src.ReadAt(buffer, c.in+done)
		if n > 0 && c.hashes(Tee, TeeAside) {
			c.hasher.take(portion{data: buffer[:n]})
		}
		if err := c.write(buffer[:n], c.out()+done); err != nil {
			return 0, err
		}
		done += int64(n)
		if readErr == io.EOF || n == 0 && readErr == nil {
			c.ended = true
			return done, nil
		}
		if readErr != nil {
			return 0, readErr
		}
	}
	return done, nil
}

// room lends a buffer until the next call, or until a hasher on another goroutine is done with it.
func (c *copier) room() []byte {
	if c.hashes(TeeAside) {
		return <-c.hasher.free
	}
	if c.buffer == nil {
		c.buffer = make([]byte, c.bufferSize())
	}
	return c.buffer
}

// bufferSize returns a size no larger than the data to copy, plus one byte that shows the end.
func (c *copier) bufferSize() int {
	if c.size <= c.From { // or unknown
		return bufferSize
	}
	return int(min(bufferSize, c.size-c.From+1, c.end-c.From))
}

func (c *copier) write(p []byte, off int64) error {
	if c.Zeros {
		_, err := WriteSparse(c.dst, p, off)
		return err
	}
	_, err := c.dst.WriteAt(p, off)
	return err
}

// leave makes a hole in dst up to an offset of src.
func (c *copier) leave(to int64) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if err := clearRange(c.dst, c.out(), to-c.in); err != nil {
		return err
	}
	if c.hashes(Tee, TeeAside) {
		c.hasher.take(portion{zeros: true, n: to - c.in})
	}
	n := to - c.in
	c.in = to
	return c.after(n)
}

// clearRange makes sure that a range of a file reads as zeros up to the file's end.
func clearRange(f *os.File, off, n int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if n = min(n, info.Size()-off); n <= 0 {
		return nil
	}
	if punch(f, off, n) == nil {
		return nil
	}
	for n > 0 {
		wrote, err := f.WriteAt(nothing[:min(n, int64(len(nothing)))], off)
		if err != nil {
			return err
		}
		off, n = off+int64(wrote), n-int64(wrote)
	}
	return nil
}

// extend sets the length of a dst that ends in a hole. It writes a byte, since truncating could cut
// off data that others are writing.
func (c *copier) extend() error {
	info, err := c.dst.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() >= c.out() || c.done() == 0 {
		return err
	}
	_, err = c.dst.WriteAt(nothing[:1], c.out()-1)
	return err
}

// finishHash hashes the rest, and waits until the hashing in progress ends.
func (c *copier) finishHash() error {
	if c.hashes(Reread) {
		for off := c.From; off < c.in; {
			to, hole := c.holes.Extent(off)
			to = min(to, c.in)
			c.hasher.take(portion{off: off, n: to - off, zeros: hole})
			off = to
		}
	}
	if c.hasher == nil {
		return nil
	}
	return c.hasher.end()
}
