package localfs

import (
	"bytes"
	"io"
	"math"
	"os"
)

// nothing is a block of zeros to compare with and to write.
var nothing [64 << 10]byte

// Holes knows where the holes of a file are, if the system tells. A nil Holes knows of none. It is
// not safe for concurrent use.
type Holes struct {
	file     *os.File
	size     int64
	from, to int64 // the extent found last
	hole     bool
}

// FindHoles returns nil unless the file may have holes, because it occupies less than its size. It
// does not notice later changes to the file. Its methods move the file's offset.
func FindHoles(f *os.File) *Holes {
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	return holesOf(f, info)
}

func holesOf(f *os.File, info os.FileInfo) *Holes {
	if !info.Mode().IsRegular() || !mayHaveHoles(info) {
		return nil
	}
	return &Holes{file: f, size: info.Size()}
}

// Extent returns the end of the data or hole at an offset. If nothing is known, or beyond the
// file's end, it is data up to math.MaxInt64.
func (h *Holes) Extent(off int64) (to int64, hole bool) {
	if h == nil || off >= h.size {
		return math.MaxInt64, false
	}
	if h.from <= off && off < h.to {
		return h.to, h.hole
	}
	h.from = off
	data, err := h.file.Seek(off, seekData)
	switch {
	case isNoData(err):
		h.to, h.hole = h.size, true // no data after off
	case err != nil || data < off:
		h.to, h.hole = math.MaxInt64, false
	case data > off:
		h.to, h.hole = min(data, h.size), true
	default:
		h.hole = false
		if h.to, err = h.file.Seek(off, seekHole); err != nil || h.to <= off {
			h.to = math.MaxInt64
		}
	}
	return h.to, h.hole
}

// DataBefore returns the end of the last data before an offset: where the file would end without
// the hole there.
func (h *Holes) DataBefore(off int64) int64 {
	if h == nil {
		return off
	}
	last := int64(0)
	for at := int64(0); at < off; {
		to, hole := h.Extent(at)
		if at = min(to, off); !hole {
			last = at
		}
	}
	return last
}

// WriteSparse writes p at an offset of a file that reads as zeros there, and leaves out blocks of
// zeros: they stay holes. If the end of p is left out, the file may stay shorter than it should be.
// WriteSparse returns how many bytes are correct.
func WriteSparse(w io.WriterAt, p []byte, off int64) (int, error) {
	return writeSparse(w, p, off, func(int64, int64) error { return nil })
}

// WriteSparseOver writes like WriteSparse, but to a file that may hold other data there.
func WriteSparseOver(f *os.File, p []byte, off int64) (int, error) {
	return writeSparse(f, p, off, func(off, n int64) error { return clearRange(f, off, n) })
}

func writeSparse(w io.WriterAt, p []byte, off int64,
	leaveOut func(off, n int64) error) (int, error) {
	done := 0
	for done < len(p) {
		zeros := leading(p[done:], off+int64(done), true)
		if zeros > 0 {
			if err := leaveOut(off+int64(done), int64(zeros)); err != nil {
				return done, err
			}
		}
		if done += zeros; done == len(p) {
			break
		}
		n := leading(p[done:], off+int64(done), false)
		wrote, err := w.WriteAt(p[done:done+n], off+int64(done))
		if done += wrote; err != nil {
			return done, err
		}
	}
	return done, nil
}

// leading returns how much of p's beginning consists of the file's blocks of only zeros, or of
// other blocks.
func leading(p []byte, off int64, zeros bool) (n int) {
	for n < len(p) {
		next := toBlock(p[n:], off+int64(n))
		if bytes.Equal(p[n:n+next], nothing[:next]) != zeros {
			break
		}
		n += next
	}
	return n
}

// toBlock returns how much of p lies in the block of the file where it begins.
func toBlock(p []byte, off int64) int { return int(min(int64(len(p)), block-off%block)) }
