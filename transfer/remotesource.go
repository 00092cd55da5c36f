package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/wire"
)

// remoteSource is a path on a host as a source.
type remoteSource struct{ *remoteEnd }

func (s *remoteSource) open(c *fileCopy) (input, error) {
	in := &remoteInput{session: c.from, path: c.source, original: c.attempts.stored == ""}
	in.guard = sizeGuard(0)
	if c.entry != nil {
		in.known = c.entry.info
		return in, nil
	}
	return in, in.ready(c)
}

func (s *remoteSource) limits() (limits, error) {
	return s.remoteEnd.limits(func(read, _ int) int { return read })
}

// sum lets the host hash the file, or reads it.
func (s *remoteSource) sum(c *fileCopy) error {
	c.size = c.entry.info.Size
	wanted := c.options.Hash
	known := c.from.client.CheckFileAlgorithms()
	if known == nil || slices.Contains(known, hostName(wanted)) {
		theirs := c.from.hashes(c.source, nil,
			usftp.CheckFile{Algorithms: []string{hostName(wanted)}})
		if theirs != nil && len(theirs.Hashes) == 1 {
			c.hashing.hash = checksum.Hash{Algorithm: wanted, Sum: theirs.Hashes[0]}
			c.hashing.verified = VerifiedByHash
			c.result.Bytes = max(0, c.size)
			return nil
		}
	}
	if private.OfClient(c.from.client).ReadsOnce() { // it hashes, but not by the list's algorithm
		return errReadOnce
	}
	sum := checksum.NewDigest(wanted, 0)
	err := private.ErrOtherSize
	if c.isSmall() {
		err = c.from.hashSmall(c, c.source, c.size, sum)
	}
	if errors.Is(err, private.ErrOtherSize) {
		sum, err = s.sumLarge(c, wanted)
	}
	if errors.Is(err, errDiffers) {
		return errChanging
	}
	if err == nil {
		c.hashing.hash = checksum.Hash{Algorithm: wanted, Sum: sum.Sums[0]}
		c.hashing.verified, c.result.Bytes = VerifiedByReading, max(0, c.size)
	}
	return err
}

func (s *remoteSource) sumLarge(c *fileCopy, wanted checksum.Algorithm) (*checksum.Digest, error) {
	f, err := c.from.client.OpenRead(c.source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	name := c.source
	if f.AttrsCached() && f.FileStat().HasSize() { // newer than the listing
		c.size = int64(f.FileStat().Size)
		name = fmt.Sprint(name, " ", c.size, " ", f.FileStat().Mtime)
	} else {
		c.attempts.again = reread{} // nothing shows that it is still the same file
	}
	sum := c.attempts.again.of(name, wanted, 0)
	from := c.attempts.again.done
	defer c.watch(func() int64 { return from + f.Progress() })()
	return sum, c.from.hashLarge(c, f, c.size)
}

// remoteInput is a file on a host being read. For a target on this machine, pour reads it. A target
// on another host reads from it.
type remoteInput struct {
	session  *session
	path     string
	known    endpoint.Info
	data     []byte // of a small file held in memory
	free     func() // of data
	original bool   // it is being copied, rather than read again
	remoteReader
}

func (in *remoteInput) info() *endpoint.Info { return &in.known }

// ready opens the file, or reads it if it is small.
func (in *remoteInput) ready(c *fileCopy) error {
	if in.file != nil || in.free != nil {
		return nil
	}
	if c.isSmall() {
		if same, err := in.load(c); same || err != nil {
			return ofSource(err)
		}
		c.flags.large = true
	}
	return ofSource(in.open(c))
}

func (in *remoteInput) open(c *fileCopy) error {
	f, trip, err := pools.OfHost(&in.session.host).OpenRead(c.ctx, in.path)
	if err != nil {
		return err
	}
	c.flags.seat.opened(true)
	in.file, in.session.trip = f, trip
	in.known.SetStat(nil)
	if !f.AttrsCached() { // nothing to compare with, or to resume from
		return nil
	}
	if in.known.SetStat(f.FileStat()); in.known.Mode.IsDir() {
		return &fs.PathError{Op: "read", Path: in.path, Err: ErrIsDirectory}
	}
	if in.original {
		if !c.attempts.racy.isAbout(f.FileStat()) {
			c.attempts.racy = newRacySource(in.session, f.FileStat())
			if err := in.settle(c); err != nil {
				return err
			}
		}
		if c.to != nil { // none of it stays on this machine
			in.racy = c.attempts.racy
			in.racy.remember()
			in.rememberAll(c)
		}
	}
	if !c.options.Changing {
		in.guard = sizeGuard(f.Info().Size())
	}
	in.lanes = func(off int64) *striper {
		if in.session == c.to || !in.known.IsRegular() ||
			!in.session.worthStriping(c, in.known.Size-off, true) {
			return nil
		}
		return in.session.stripe(c, f, os.O_RDONLY, off, in.known.Size, 0)
	}
	return nil
}

// rememberAll hashes everything that is read, for a target elsewhere, if the server is known to
// change the times of files being read: at the end only the contents show whether the file is
// unchanged.
func (in *remoteInput) rememberAll(c *fileCopy) {
	if c.attempts.prefix == nil && (in.session.quirks().Touches.Load() ||
		private.OfClient(in.session.client).Touches()) {
		c.attempts.prefix = new(prefixHash)
	}
	if in.prefix = c.attempts.prefix; in.prefix != nil {
		in.prefix.remember()
	}
}

// load reads a small file into memory before anything is created at the target.
func (in *remoteInput) load(c *fileCopy) (same bool, err error) {
	f := usftp.NewFile(in.session.client, in.path)
	if err := f.OpenRead(); err != nil {
		return false, err
	}
	c.flags.seat.opened(true)
	size := c.entry.info.Size
	budget := c.tree.budget
	budget.memory.take(size)
	var data []byte
	release := func() {}
	now, err := private.OfFile(f).ReadClose(int(size), func() []byte {
		data, release = budget.buffers.get(int(size))
		return data
	})
	if err == nil && now != nil && now.HasMode() && now.FileMode().IsRegular() &&
		// otherwise it was written to since it was listed, perhaps just now
		(!in.known.HasTimes || !now.HasTimes() || in.known.Mtime.Equal(now.ModTime())) {
		c.freeHandle()
		c.size = size
		in.known.SetStat(now)
		in.data = data
		in.free = func() {
			release()
			budget.memory.give(size)
		}
		return true, nil
	}
	release()
	budget.memory.give(size)
	if errors.Is(err, private.ErrOtherSize) {
		err = nil
	}
	return false, err
}

// whole reads a small file for a target on another host, unless the host can copy the file itself.
func (in *remoteInput) whole(c *fileCopy, data []byte) (same bool, err error) {
	if in.copies(c) {
		return false, nil
	}
	f := usftp.NewFile(in.session.client, in.path)
	if err := f.OpenRead(); err != nil {
		return false, err
	}
	c.flags.seat.opened(true)
	now, err := private.OfFile(f).ReadClose(len(data)-1, func() []byte {
		return data[:len(data)-1]
	})
	if errors.Is(err, private.ErrOtherSize) {
		return false, nil
	}
	if err != nil || now == nil || now.HasMode() && !now.FileMode().IsRegular() {
		return false, err
	}
	in.known.SetStat(now)
	return true, nil
}

// copies reports whether the host can copy the file itself.
func (in *remoteInput) copies(c *fileCopy) bool {
	if in.session != c.to || c.hashes() { // what is hashed must pass through here
		return false
	}
	_, offered := in.session.client.HasExtension(wire.ExtCopyData)
	return offered
}

func (in *remoteInput) copyOn(c *fileCopy, to *usftp.File) (n int64, done bool, err error) {
	if !in.copies(c) || !in.known.IsRegular() || in.known.Size == 0 {
		return 0, false, nil
	}
	small := in.known.Size <= readAtOnce
	if racy := c.attempts.racy; !small && racy.isRacy(c.ctx) {
		if err := racy.wait(c.ctx); err != nil {
			return 0, true, err
		}
		c.attempts.racy, in.racy = nil, nil
		if err := in.unchanged(c, in.known.Size, nil); err != nil {
			return 0, true, err
		}
	}
	at := c.result.Resumed
	n, err = in.file.CopyRange(at, max(0, in.known.Size-at), to, at)
	if small && n > 0 {
		c.attempts.racy, in.racy = nil, nil
	}
	return n, n > 0 || !endpoint.Refused(err), err
}

func (in *remoteInput) pour(c *fileCopy, to sink) (n int64, err error) {
	if in.free != nil {
		c.hashing.small(c, in.data)
		err := to.small(c, in.data)
		n := int64(len(in.data))
		in.release() // before verifying takes more
		if err == nil {
			err = c.limiter.wait(int(n))
		}
		return n, err
	}
	f, resumed := in.file, c.result.Resumed
	if to.reread == nil {
		in.racy = c.attempts.racy
		in.racy.remember()
		in.rememberAll(c)
	}
	if n, done, err := in.pourDelta(c, to); done || err != nil {
		return n, err
	}
	c.hashing.start(c, to.reread)
	var moved atomic.Int64 // under a rate limit, writing a request's data takes a while
	defer c.watch(func() int64 { return resumed + max(f.Progress(), moved.Load()) })()
	pipe := c.hashing.pipe
	w, at, err := to.open(c)
	if err != nil {
		return 0, err
	}
	if c.limiter != nil {
		w = counting{w, &moved}
	}
	guard := in.guard
	if at == nil || pipe.Ordered() || in.racy != nil || in.prefix != nil || !in.known.IsRegular() ||
		!in.session.worthStriping(c, c.size-resumed, true) {
		n, err = in.session.judge(c, f, func() (int64, int, error) {
			fed := pipe.Writer(in.writer(c.limiter.writer(w), resumed), resumed)
			n, err := f.WriteTo(&guarded{fed, resumed, guard})
			return n, 1, err
		})
	} else {
		s := in.session.stripe(c, f, os.O_RDONLY, resumed, c.size, 0)
		defer s.stop()
		safe := func() int64 { return resumed + f.Progress() }
		n, err = in.session.judge(c, f, func() (int64, int, error) {
			n, err := s.stripes.WriteToAt(guardedAt{pipe.WriterAt(at, safe), guard})
			return n, 1 + s.count(), err
		})
		c.result.Stripes = s.stripes.Joined()
		if err == nil {
			// unchanged compares what arrived with the contents
			if err = s.prove(); errors.Is(err, errTouched) {
				in.mixed, err = err, nil
			}
		}
	}
	if err == nil {
		err = to.end(c, resumed+n)
	}
	if endpoint.Refused(err) || in.session.lost() {
		err = ofSource(err)
	}
	return n, err
}

func (in *remoteInput) unchanged(c *fileCopy, n int64, local reopen) error {
	in.end()
	switch {
	case in.mixed == errTouched:
		return in.onlyTouched(c, n, local)
	case in.mixed != nil:
		return in.mixed
	case in.file == nil || !in.known.IsRegular():
		return nil
	}
	info, err := in.file.Stat()
	now := in.known // a server without FSTAT offers nothing newer to compare with
	if err == nil {
		now = endpoint.OfStat(info.Sys().(*usftp.FileStat))
	} else if !errors.Is(err, errors.ErrUnsupported) && c.interrupted() {
		return err
	}
	if err := unchanged(&in.known, &now, n); err == errTouched {
		return in.onlyTouched(c, n, local)
	} else if err != nil {
		return err
	}
	if c.verifies() && c.to == nil { // the source itself is compared
		return nil
	}
	return c.attempts.racy.check(c, in.file, n, local)
}

// onlyTouched checks that a source whose time changed while it was read has the contents that
// arrived, by the host's hashes or by reading all of it again. A sample would not do, since a real
// write changes the time too. rclone's SFTP server shows the current time for files in its cache
// (--vfs-cache-mode).
func (in *remoteInput) onlyTouched(c *fileCopy, n int64, local reopen) error {
	var same bool
	var err error
	switch {
	case private.OfClient(in.session.client).ReadsOnce():
		return errTouched
	case in.prefix.remembers() && in.prefix.fed == n:
		var now []byte
		now, err = c.attempts.again.hash(c, in.file, n)
		same = bytes.Equal(now, in.prefix.sum.Sum(nil))
	case c.to == nil && local != nil:
		same, err = in.sameAs(c, n, local)
	default:
		return errTouched // what arrived is not here, and was not hashed
	}
	if err != nil {
		return err
	}
	if !same {
		return ErrSourceChanged
	}
	if c.entry != nil && c.entry.info.HasTimes { // restore the time from before it was read
		in.known.Mtime, in.known.Atime = c.entry.info.Mtime, c.entry.info.Atime
	}
	if !in.session.quirks().Touches.Swap(true) {
		why := "some servers report the current time for files that are read"
		if c.result.InPlace {
			why += ", or the target is the source itself, under another name"
		}
		c.note("the time of the source changed while it was copied, and its contents did not: " +
			why + " (reported once for all files of the host)")
	}
	return nil
}

// sameAs compares the first n bytes of the source with the copy on this machine.
func (in *remoteInput) sameAs(c *fileCopy, n int64, local reopen) (bool, error) {
	file, free, err := interruptible(c.ctx, local)()
	if err != nil {
		return false, err
	}
	defer free()
	if same, known := in.session.begins(in.file, file, n); known {
		return same, nil
	}
	again := in.file.ReadRange(0, n)
	defer again.Close()
	return c.matches(c.limiter.reader(again), file, n)
}

func (in *remoteInput) inherit(c *fileCopy, m *mark) {
	if m.RacyBytes > 0 && !c.attempts.racy.isRacy(c.ctx) {
		c.attempts.racy = resumeRacySource(in.file.FileStat(), m.RacyBytes)
	}
}

func (in *remoteInput) verify(c *fileCopy, target reopen) error {
	return in.session.verify(c, in.path, in.file, target)
}

func (in *remoteInput) holds(c *fileCopy) (same, known bool) {
	return in.session.holds(c.hashing.digests, in.path, nil)
}

func (in *remoteInput) begins(local io.ReaderAt, n int64) (same, known bool) {
	return in.session.begins(in.file, local, n)
}

func (in *remoteInput) reopen(c *fileCopy) reopen {
	if !in.known.IsRegular() || private.OfClient(in.session.client).ReadsOnce() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		if in.file != nil && in.session.oneHandle() {
			return in.file, func() {}, nil
		}
		again := &remoteInput{session: in.session, path: in.path}
		if err := again.open(c); err != nil {
			return nil, nil, ofSource(err)
		}
		return again, again.close, nil
	}
}

func (in *remoteInput) release() {
	if in.free != nil {
		in.free()
		in.free, in.data = nil, nil
	}
}

func (in *remoteInput) close() {
	in.release()
	in.end()
	if in.file != nil {
		in.file.Close()
	}
}

func (in *remoteInput) contents() contents { return &in.remoteReader }
