package transfer

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/hashpipe"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/wire"
)

var (
	errReadOnce = fmt.Errorf(
		"%w: it cannot be verified: the host does not hash files and counts every read",
		errors.ErrUnsupported)
	errNoReread = fmt.Errorf("%w: it cannot be verified: only files can be read again",
		errors.ErrUnsupported)
	errDiffers = errors.New("it differs from the source")
)

// verifiable fails, before anything is copied, if nothing can be verified on the host.
func verifiable(s *session) error {
	if s != nil && private.OfClient(s.client).ReadsOnce() && !s.client.HasCheckFile() {
		return errReadOnce
	}
	return nil
}

// verify compares a file on a host with what was copied: by a delta's proof, by the host's hash if
// it offers one, or by reading it back, unless the host counts reads. f is the file if it is
// already open; local rereads the other end.
func (s *session) verify(c *fileCopy, name string, f *usftp.File, local reopen) error {
	if c.delta != nil {
		return c.delta.verify()
	}
	c.takeHandle()
	if same, known := s.holds(c.hashing.digests, name, f); known {
		if !same {
			return ErrVerify
		}
		c.hashing.verified = VerifiedByHash
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
	c.hashing.verified = VerifiedByReading
	return nil
}

// holds asks the host to hash its whole file, so that a longer file differs too. known is false if
// the host cannot, or not by this algorithm. A file hashed in one piece takes one round trip, by
// name or by an open handle, and two more if the host must open it first.
func (s *session) holds(ours hashpipe.Digests, name string, f *usftp.File) (same, known bool) {
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

// hashes returns the host's hashes of a file, nil if it has none.
func (s *session) hashes(name string, f *usftp.File,
	what usftp.CheckFile) (theirs *usftp.FileHashes) {
	if !s.client.HasCheckFile() {
		return nil
	}
	err := errors.ErrUnsupported
	if f != nil {
		theirs, err = f.CheckFile(what)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		theirs, err = s.client.CheckFile(name, what)
	}
	if err != nil || theirs.Algorithm != what.Algorithms[0] {
		return nil
	}
	return theirs
}

// begins reports whether a file on the host begins with the first n bytes of a local one, by
// hashing both at the same time. known is false if the host cannot hash.
func (s *session) begins(f *usftp.File, local io.ReaderAt, n int64) (same, known bool) {
	if !s.client.HasCheckFile() {
		return false, false
	}
	var theirs *usftp.FileHashes
	var theirErr error
	var asking sync.WaitGroup
	asking.Go(func() {
		theirs, theirErr = f.CheckFile(usftp.CheckFile{Algorithms: []string{"sha256"}, Length: n,
			BlockSize: hashPiece})
	})
	ours := checksum.NewDigest(checksum.SHA256, hashPiece)
	got, err := io.Copy(ours, io.NewSectionReader(local, 0, n))
	ours.Finish()
	asking.Wait()
	if theirErr != nil || theirs.Algorithm != "sha256" {
		return false, false
	}
	return err == nil && got == n && slices.EqualFunc(ours.Sums, theirs.Hashes, bytes.Equal), true
}

// Servers in front of object stores keep whole parts of an upload that ended half way, which cannot
// be read or cut. They know the MD5 of each, but not where the client would cut. Parts are as long
// as powers of two between these, and are longer towards the end of a file (usftpd).
const (
	leastPart = 8 << 20
	mostPart  = 1 << 30
)

// kept returns how much of the first n bytes of a host's file is proved part by part to be the
// beginning of a local one.
func (s *session) kept(f *usftp.File, local io.ReaderAt, n int64) (kept int64, err error) {
	if !s.client.HasCheckFile() {
		return 0, nil
	}
	for part := int64(leastPart); part <= mostPart && kept+part <= n; {
		theirs, err := f.CheckFile(usftp.CheckFile{Algorithms: []string{"md5"}, Offset: kept,
			Length: part})
		if endpoint.Refused(err) {
			part *= 2
			continue
		}
		if err != nil || theirs.Algorithm != "md5" {
			return 0, err
		}
		ours := md5.New()
		if _, err := io.Copy(ours, io.NewSectionReader(local, kept, part)); err != nil {
			return 0, err
		}
		if !bytes.Equal(ours.Sum(nil), theirs.Hashes[0]) {
			return 0, errDiffers
		}
		kept += part
	}
	return kept, nil
}

// readBack reads the host's file and hashes it like what was copied. A large file over a long link
// is read over several connections in any order, and compared with the other end instead.
func (s *session) readBack(c *fileCopy, name string, f *usftp.File, local reopen) error {
	size := c.result.Bytes
	ours := c.hashing.digests.Check()
	theirs := checksum.NewDigest(ours.Algorithm, ours.Piece)
	err := endpoint.ErrNotListed
	if f == nil && c.isSmall() {
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
		if s == c.to && !s.syncs(c) {
			c.attempts.again = reread{}
			defer func() { c.attempts.sync = s.lost() }()
		}
		if local != nil && s.worthStriping(c, size, true) {
			return s.compare(c, name, f, size, local)
		}
		theirs = c.attempts.again.of(name, ours.Algorithm, ours.Piece)
		err = s.hashLarge(c, f, size)
	}
	if err == nil && !slices.EqualFunc(ours.Sums, theirs.Sums, bytes.Equal) {
		err = errDiffers
	}
	return err
}

// syncs reports whether the copy is flushed to the host's disk before it is verified. Without that,
// a host that goes down while verifying may lose what has been verified. Once a connection was lost
// while verifying, the next attempt flushes if it can.
func (s *session) syncs(c *fileCopy) bool {
	if c.options.Sync {
		return true
	}
	_, offered := s.client.HasExtension(wire.ExtFsync)
	return c.attempts.sync && offered
}

// A reread is a file on a host that is read again. What was read of it before the connection was
// lost is not read again by the next attempt, and counts as progress.
type reread struct {
	name     string           // what was read; the next attempt must mean the same
	done     int64            // bytes from the beginning
	sum      *checksum.Digest // of these bytes, nil if they are compared instead
	progress pools.Progress
}

// of starts rereading name, or continues it, and returns its digest.
func (r *reread) of(name string, algorithm checksum.Algorithm, piece int64) *checksum.Digest {
	if r.name != name || r.sum == nil || r.sum.Algorithm != algorithm || r.sum.Piece != piece {
		*r = reread{name: name, sum: checksum.NewDigest(algorithm, piece)}
	}
	return r.sum
}

// read hashes what copy writes to w: the file from an offset on.
func (r *reread) read(c *fileCopy, s *session,
	copy func(w io.Writer, off int64) (int64, error)) error {
	pipe := hashpipe.New(hashpipe.Digests{r.sum}, 0, nil, c.pipeBuffers())
	from := r.done
	position := func() int64 { return from + pipe.Progress() }
	defer pools.OfConn(s.conn).Follow(&r.progress, position)()
	defer c.checks(position)()
	_, err := copy(pipe.Writer(c.limiter.writer(io.Discard), 0), from)
	r.done += pipe.Drain()
	return err
}

// hashLarge hashes the rest of the file that c.attempts.again describes. It fails if the file's
// size differs; a size below 0 accepts any.
func (s *session) hashLarge(c *fileCopy, f *usftp.File, size int64) error {
	r := &c.attempts.again
	err := r.read(c, s, func(w io.Writer, off int64) (int64, error) {
		if size >= 0 {
			w = &atMost{w, size - off}
		}
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return 0, err
		}
		return f.WriteTo(w)
	})
	if err == nil && size >= 0 && r.done != size {
		err = errDiffers
	}
	if err == nil {
		r.sum.Finish()
	}
	return err
}

// hashSmall hashes a file read in one piece, in two round trips. The error is endpoint.ErrNotListed
// if its size differs.
func (s *session) hashSmall(c *fileCopy, name string, size int64, into *checksum.Digest) error {
	file := &small{budget: c.tree.budget, size: size, takes: true}
	defer file.release()
	err := file.read(c.ctx, endpoint.OnHost{Host: &s.host}, name, 0, &endpoint.Info{Size: size})
	if err == nil {
		err = c.limiter.wait(len(file.data))
	}
	if err == nil {
		into.Write(file.data)
		into.Finish()
	}
	return err
}

// compare reads a file over several handles where that helps, and compares it with the other end.
func (s *session) compare(c *fileCopy, name string, f *usftp.File, size int64, local reopen) error {
	file, free, err := local()
	if err != nil {
		return err
	}
	defer free()
	r := &c.attempts.again
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
	stripes := s.stripe(c, f, os.O_RDONLY, from, size, 0)
	defer stripes.stop()
	n, err := stripes.stripes.WriteToAt(&comparer{at: file, size: size})
	if r.done += n; err == nil && r.done != size {
		err = errDiffers
	}
	return err
}

// matches reports whether a reader yields exactly the first n bytes of a file on this machine.
func (c *fileCopy) matches(r io.Reader, file io.ReaderAt, n int64) (bool, error) {
	var compared atomic.Int64
	defer c.checks(compared.Load)()
	to := counting{io.NewOffsetWriter(&comparer{at: file, size: n}, 0), &compared}
	got, err := io.CopyBuffer(to, interruptibleReader{c.ctx, r}, make([]byte, min(n+1, 256<<10)))
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil && got == n, err
}

// atMost is a writer that refuses more than a number of bytes.
type atMost struct {
	io.Writer
	left int64
}

func (a *atMost) Write(p []byte) (int, error) {
	if a.left -= int64(len(p)); a.left < 0 {
		return 0, errDiffers
	}
	return a.Writer.Write(p)
}

// A comparer is a writer that fails when it is given anything but a file's contents.
type comparer struct {
	at     io.ReaderAt
	size   int64
	buffer []byte
}

func (c *comparer) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > c.size {
		return 0, errDiffers
	}
	if cap(c.buffer) < len(p) {
		c.buffer = make([]byte, len(p))
	}
	got := c.buffer[:len(p)]
	n, err := c.at.ReadAt(got, off)
	switch {
	case n == len(p) && bytes.Equal(got, p):
		return n, nil
	case n == len(p) || err == io.EOF:
		return 0, errDiffers
	}
	return 0, err
}
