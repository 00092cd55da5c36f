package filecopy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/hashpipe"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

var (
	errNoReread = fmt.Errorf("%w: it cannot be verified: only files can be read again",
		errors.ErrUnsupported)
	errDiffers = errors.New("differs from the source")
)

// verify compares a file on a host with the copied data: by a delta's proof, by the host's hash if
// it offers one, or by reading it back, unless the host counts reads. f is the file if it is
// already open; local rereads the other endpoint's file.
func (s prover) verify(c *Copy, name string, f *usftp.File, local reopen) error {
	if c.delta != nil {
		return c.delta.verify()
	}
	if !c.alone { // otherwise those that wait for it may have all handles
		c.slot.take(c.Budget)
	}
	if same, known := s.holds(c.hashing.digests, name, f); known {
		if !same {
			return ErrVerify
		}
		c.hashing.verified = ByHash
		return nil
	}
	if private.OfClient(s.client).ReadsOnce() { // the host hashes, but not by the wanted algorithm
		return errReadOnce
	}
	if err := s.readBack(c, name, f, local); err != nil {
		if errors.Is(err, errDiffers) {
			return ErrVerify
		}
		return err
	}
	c.hashing.verified = ByReading
	return nil
}

// holds asks the host to hash its whole file, so that a longer file differs too. known is false if
// the host cannot, or not by this algorithm. A file hashed in one piece takes one round trip, by
// name or by an open handle, and two more if the host must open it first.
func (s prover) holds(ours hashpipe.Digests, name string, f *usftp.File) (same, known bool) {
	check := ours.Check()
	what := usftp.CheckFile{Algorithms: []string{hostName(check.Algorithm)}}
	if len(check.Sums) > 1 {
		what.BlockSize = int(check.Piece)
	}
	theirs := s.hashes(name, f, what)
	if theirs == nil {
		return false, false
	}
	return slices.EqualFunc(check.Sums, theirs.Hashes, bytes.Equal), true
}

// readBack reads the host's file and hashes it like the copied data. A large file over a long link
// is read over several connections in any order, and compared with the other endpoint's instead.
func (s prover) readBack(c *Copy, name string, f *usftp.File, local reopen) error {
	size := c.Result.Bytes
	ours := c.hashing.digests.Check()
	theirs := checksum.NewDigest(ours.Algorithm, ours.Piece)
	err := endpoint.ErrNotListed
	if f == nil && c.IsSmall() {
		err = s.hashSmall(c, name, size, theirs)
	}
	if err == endpoint.ErrNotListed {
		if f == nil {
			if f, err = s.client.OpenRead(name); err != nil {
				return err
			}
			defer f.Close()
		} else if f.AttrsCached() {
			name = fmt.Sprint(name, " ", f.FileStat().Mtime)
		}
		if s.session == c.to && !s.syncs(c) {
			c.known.again = reread{}
			defer func() { c.known.sync = s.lost() }()
		}
		if local != nil && s.worthStriping(c, size, true) {
			return s.compare(c, name, f, size, local)
		}
		theirs = c.known.again.of(name, ours.Algorithm, ours.Piece)
		err = s.hashLarge(c, f, size)
	}
	if err == nil && !slices.EqualFunc(ours.Sums, theirs.Sums, bytes.Equal) {
		err = errDiffers
	}
	return err
}

// syncs reports whether the copy is flushed to the host's disk before it is verified. Without that,
// a host that goes down while verifying may lose verified data. Once a connection was lost while
// verifying, the next attempt flushes if it can.
func (s prover) syncs(c *Copy) bool {
	if c.Options.Sync {
		return true
	}
	return c.known.sync && s.flushes()
}

// compare reads a file over several handles where that helps, and compares it with the other
// endpoint's.
func (s prover) compare(c *Copy, name string, f *usftp.File, size int64, local reopen) error {
	file, err := local()
	if err != nil {
		return err
	}
	defer file.Close()
	r := &c.known.again
	if r.name != name || r.sum != nil {
		*r = reread{name: name}
	}
	if _, err := f.Seek(r.done, io.SeekStart); err != nil {
		return err
	}
	from := r.done
	position := func() int64 { return from + f.Progress() }
	defer pools.OfConn(s.conn).Follow(&r.progress, position)()
	defer c.checks(position)()
	stripes := s.stripe(c, f, endpoint.Striping{From: from, Size: size})
	defer stripes.Stop()
	n, err := stripes.WriteToAt(&comparer{at: file, size: size})
	if r.done += n; err == nil && r.done != size {
		err = errDiffers
	}
	return err
}

// verifyHere compares the copy with the source, if the target is on this machine.
func verifyHere(in *input, target reopen) error {
	c := in.copy
	switch {
	case in.host != nil:
		return c.from.prover().verify(c, c.Source, in.host.File, target)
	case c.from != nil:
		return c.from.prover().verify(c, c.Source, nil, target)
	}
	if target == nil || !in.known.Mode.IsRegular() {
		return errNoReread
	}
	stored, err := target()
	if err != nil {
		return err
	}
	defer stored.Close()
	same, err := matches(c, io.NewSectionReader(stored, 0, math.MaxInt64), in.file, c.Result.Bytes)
	if err == nil && !same {
		err = ErrVerify
	}
	if err == nil {
		c.hashing.verified = ByReading
	}
	return err
}

// matches reports whether a reader yields exactly the first n bytes of a file on this machine.
func matches(c *Copy, r io.Reader, file io.ReaderAt, n int64) (bool, error) {
	var compared atomic.Int64
	defer c.checks(compared.Load)()
	to := counting{io.NewOffsetWriter(&comparer{at: file, size: n}, 0), &compared}
	got, err := io.CopyBuffer(to, interruptibleReader{c.Ctx, r}, make([]byte, min(n+1, 256<<10)))
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil && got == n, err
}
