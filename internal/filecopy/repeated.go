package filecopy

import (
	"bytes"
	"errors"
	"io"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/pace"
)

// ErrStrange reports that the target is not as an earlier run left it.
var ErrStrange = errors.New("not what the interrupted run of this copy left there, so it is not replaced (-T replaces it)")

// ofEarlierRun fails unless replacing the target entry of a repeated copy loses nothing: it has the
// source's size and time, or it is the beginning of the source, as on a host that keeps no times or
// that is written in place. Parts that several handles had not written yet are holes.
func (l *location) ofEarlierRun(c *Copy, in *input) error {
	size := c.Listed.Size
	switch {
	case l.link: // a run leaves none for a file
		return ErrStrange
	case l.info == nil || c.journal.isHalfway(c) || sameSizeAndTime(c, l.info) && !c.hashes():
		return nil
	case !l.info.Mode().IsRegular() || l.info.Size() > size:
		return ErrStrange
	case l.info.Size() == 0:
		return nil
	}
	again := in.reopen()
	if again == nil { // it can be read only once
		return ErrStrange
	}
	there, err := c.Dst.Opener(c.to.pool()).Open(c.Ctx, l.name, endpoint.Regular|endpoint.NoFollow)
	if err != nil {
		return err
	}
	defer there.Close()
	source, err := again()
	if err != nil {
		return err
	}
	defer source.Close()
	return compareBeginning(source, io.NewSectionReader(there, 0, l.info.Size()), c.Limiter)
}

// hole divides the lengths and offsets of all WRITEs.
const hole = 1 << 10

var zeros [hole]byte

// compareBeginning fails with ErrStrange unless r has only the source's data at the same offsets,
// or holes.
func compareBeginning(source io.ReaderAt, r io.Reader, limit *pace.Limiter) error {
	have, want := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); ; {
		n, err := io.ReadFull(r, have)
		if n == 0 || err != nil && err != io.ErrUnexpectedEOF {
			if err == io.EOF {
				return nil
			}
			return err
		}
		if got, err := source.ReadAt(want[:n], off); got < n {
			if err == io.EOF { // it has become shorter
				return ErrStrange
			}
			return endpoint.OfSource(err)
		}
		for at := 0; at < n; at += hole {
			piece := have[at:min(at+hole, n)]
			if !bytes.Equal(piece, want[at:at+len(piece)]) && !bytes.Equal(piece, zeros[:len(piece)]) {
				return ErrStrange
			}
		}
		off += int64(n)
		if err := limit.Wait(n); err != nil {
			return err
		}
	}
}
