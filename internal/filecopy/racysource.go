package filecopy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
)

// A racySource is a source on a host that may have been written to just before it was read. SFTP's
// times are whole seconds (draft-ietf-secsh-filexfer-02, section 5), so another write within the
// second of the file's mtime leaves no trace in its attributes; Git calls such a file racy, too.
// That second ends at most one second after the first look at the file: the bytes read until then
// are compared again at the end, however long the copy takes.
//
// SFTP has no clock either. We assume that the host's clock agrees with ours, unless its /proc or
// the file's atime shows that it is behind. One case remains undetected: a write within the second
// in which the file is first read, on a host whose clock is behind ours by more than RacyFor and
// that shows neither (or is behind by more than mostBehind).
type racySource struct {
	first   *usftp.FileStat // as first seen
	clock   *quirks.Clock   // the host's; nil if it does not matter or cannot be known
	suspect bool            // the second of its mtime may not be over
	shared  bool            // other copies may have read parts of it
	began   time.Time
	readTo  atomic.Int64 // how far it may have been read within RacyFor

	prefix prefixHash // hash up to readTo, if this machine cannot read it again
	again  reread     // the source's present contents
}

const (
	// RacyFor is how long a file may be racy after it was written to: the rest of a second, and a
	// second for clocks that disagree.
	RacyFor = 2 * time.Second

	// mostBehind is the most that a host's clock can be behind ours and be noticed. Older sources are
	// not racy; the beginning of all others is hashed if the data is not stored on this machine.
	mostBehind = 24 * time.Hour

	// readAtOnce is how much a server reads at once when it copies a file itself: the size of
	// sftp-server's buffer.
	readAtOnce = 64 << 10

	// mostAsked is how much one connection may have requested beyond the arrived data.
	mostAsked = 16 << 20
)

// newRacySource returns nil if the source's size or mtime is not known, or it is empty.
func newRacySource(s *session, stat *usftp.FileStat) *racySource {
	if stat == nil || !stat.HasTimes() || !stat.HasSize() || stat.Size == 0 ||
		!stat.FileMode().IsRegular() {
		return nil
	}
	now := time.Now()
	r := &racySource{first: stat, began: now, suspect: !stat.ModTime().Before(now.Add(-RacyFor))}
	r.readTo.Store(math.MaxInt64)
	if !r.suspect && r.young() && private.OfClient(s.client).WorksInOrder() { // as OpenSSH's does
		r.clock = &s.quirks().Clock
		r.clock.Ask(s.client)
	}
	return r
}

// young reports whether the source was written to recently enough for the host's clock to matter.
func (r *racySource) young() bool { return r.began.Sub(r.first.ModTime()) < mostBehind }

// isRacy reports whether the source is already known to be racy. It may wait for a reply; if ctx
// ends first, the source is racy, to be safe.
func (r *racySource) isRacy(ctx context.Context) bool {
	if r == nil || r.suspect || r.clock == nil {
		return r != nil && r.suspect
	}
	behind, known, err := r.clock.Behind(ctx)
	return err != nil || known && !r.first.ModTime().Before(r.began.Add(-behind-RacyFor))
}

// over returns when the second of the source's mtime is over: at most one second after it was seen,
// whatever the host's clock says.
func (r *racySource) over() time.Time {
	over, agreed := r.began.Add(time.Second), r.first.ModTime().Add(RacyFor)
	if agreed.Before(over) {
		return agreed
	}
	return over
}

// usualRate and farRate are the assumed rates of reading a source again, in bytes per second, on
// short and on long links of unknown rate: it takes one connection, which its window or a shaper
// may limit.
const usualRate, farRate = 64 << 20, 2 << 20

// everywhere records that other copies may have read any part of the source.
func (r *racySource) everywhere() {
	if r != nil {
		r.shared = true
		r.readTo.CompareAndSwap(math.MaxInt64, math.MaxInt64-1)
	}
}

// since records that another copy read part of the source earlier, at the given time.
func (r *racySource) since(when time.Time) {
	if r != nil && when.Before(r.began) {
		r.began = when
		r.suspect = r.suspect || !r.first.ModTime().Before(when.Add(-RacyFor))
	}
}

// atOnce reports whether all n bytes that were read came in one reply. The server then read them at
// one moment.
func (r *racySource) atOnce(c *Copy, f *usftp.File, n int64) bool {
	return c.Result.Resumed == 0 && !r.shared && r.readTo.Load() >= n &&
		private.OfFile(f).Answers() == 1
}

// isAbout reports whether a source is still as first seen.
func (r *racySource) isAbout(stat *usftp.FileStat) bool {
	return r != nil && r.first.Size == stat.Size && r.first.Mtime == stat.Mtime
}

// watch records how far the source was read when RacyFor is over. Data requested by then may have
// been read too.
func (r *racySource) watch(ends *ends, position func() int64) (stop func()) {
	if r == nil || r.readTo.Load() != math.MaxInt64 {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(time.Until(r.began.Add(RacyFor)), func() {
		defer close(done)
		ahead := int64(0)
		for _, s := range ends.all() {
			ahead += mostAsked
			if s.host.Pool != nil {
				others, _ := pools.OfPool(s.host.Pool).Sessions()
				ahead += int64(len(others)) * mostAsked
			}
		}
		r.readTo.CompareAndSwap(math.MaxInt64, position()+ahead)
	})
	return func() {
		if !timer.Stop() {
			<-done // the next attempt replaces the connections that it uses
		}
	}
}

// remember starts to hash passing data that is not stored on this machine, if the source is racy or
// may turn out to be.
func (r *racySource) remember() {
	if r != nil && (r.suspect || r.young()) {
		r.prefix.remember()
	}
}

// feed takes data read at an offset. The same data may come twice.
func (r *racySource) feed(data []byte, off int64) {
	if r != nil && r.prefix.fed < r.readTo.Load() {
		r.prefix.feed(data, off)
	}
}

// A prefixHash hashes data, in the order read, that is not stored on this machine. It hashes
// nothing if it is nil, or before remember is called.
type prefixHash struct {
	sum hash.Hash
	fed int64 // from the beginning of the file
}

func (p *prefixHash) remember() {
	if p.sum == nil {
		p.sum = sha256.New()
	}
}

func (p *prefixHash) remembers() bool { return p != nil && p.sum != nil }

func (p *prefixHash) feed(data []byte, off int64) {
	if !p.remembers() || off > p.fed || off+int64(len(data)) <= p.fed {
		return
	}
	p.sum.Write(data[p.fed-off:])
	p.fed = off + int64(len(data))
}

// wait waits until the second of the source's mtime is over. It is for files that a host copies
// itself, whose data does not pass through here.
func (r *racySource) wait(ctx context.Context) error {
	return pace.Sleep(ctx, time.Until(r.began.Add(RacyFor)))
}

// check compares the bytes read too early with the source's present contents. n bytes were copied;
// local opens the copy, nil if it cannot be read again.
func (r *racySource) check(c *Copy, f *usftp.File, n int64, local reopen) error {
	if r == nil || r.atOnce(c, f, n) {
		return nil
	}
	r.suspect = r.isRacy(c.Ctx)
	if after := f.FileStat(); !r.suspect && after.HasTimes() && after.Atime != r.first.Atime {
		// the host's clock when the file was first seen was at least this
		then := int64(after.Atime) - int64(time.Since(r.began)/time.Second) - 1
		r.suspect = int64(r.first.Mtime) >= then
	}
	if !r.suspect {
		return nil
	}
	n = min(r.readTo.Load(), n)
	var sum []byte
	switch {
	case r.prefix.remembers():
		n, sum = r.prefix.fed, r.prefix.sum.Sum(nil)
	case local != nil:
		file, err := local()
		if err != nil {
			return err
		}
		defer file.Close()
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(file, 0, n)); err != nil {
			return err
		}
		sum = h.Sum(nil)
	default:
		return nil
	}
	if n == 0 { // none of it passed here: the host copied it
		return nil
	}
	now, err := r.again.hash(c, f, n)
	switch {
	case err != nil:
		return err
	case now == nil:
		c.Warn("the source was written to just before it was copied, and cannot be read again to check that it did not change")
	case !bytes.Equal(sum, now):
		return changedf("its contents changed within one second")
	}
	return nil
}

// hash hashes the first n bytes of a source as they are now, on the host if possible, otherwise by
// reading them again. It returns nil if neither is possible. If the connection is lost, the next
// attempt continues.
func (r *reread) hash(c *Copy, f *usftp.File, n int64) ([]byte, error) {
	client := f.Client()
	if n <= hashPiece && client.HasCheckFile() {
		hashes, err := f.CheckFile(usftp.CheckFile{Algorithms: []string{"sha256"}, Length: n})
		if err == nil && hashes.Algorithm == "sha256" && len(hashes.Hashes) == 1 {
			return hashes.Hashes[0], nil
		}
	}
	if private.OfClient(client).ReadsOnce() {
		return nil, nil
	}
	c.enters(Rereading)
	defer c.settles()
	sum := r.of("", checksum.SHA256, 0)
	err := r.read(c, c.from, func(w io.Writer, off int64) (int64, error) {
		rest := f.ReadRange(off, n-off)
		defer rest.Close()
		return io.Copy(w, rest)
	})
	if err != nil {
		return nil, err
	}
	sum.Finish()
	return sum.Sums[0], nil
}

// sameness shows whether a source stayed the same while it was read.
type sameness struct {
	in     *input
	racy   *racySource // of a source read for a target elsewhere, or nil
	prefix *prefixHash // hash of all data such a target reads, nil unless needed
	mixed  error       // the first failed proof of a stream's handles
}

// settle waits before the first read until the second of the source's mtime is over, if reading
// again the bytes read by then might take longer. Then no read is racy. The logins of further
// connections fit into that time.
func (s *sameness) settle() error {
	in, c := s.in, s.in.copy
	r := c.known.racy
	if in.shared != nil || r == nil || !r.suspect ||
		c.verifies() && c.to == nil { // the source itself is compared
		return nil
	}
	rate := pools.OfConn(c.from.conn).Rate()
	if rate == 0 {
		rate = usualRate
		if c.from.trip >= flow.StripeTrip {
			rate = farRate
		}
	}
	left := time.Until(r.over())
	if left > 0 {
		if float64(in.known.Size)/rate < left.Seconds() {
			return nil
		}
		if pool := c.from.host.Pool; pool != nil && !c.Budget.spreads() && c.Limiter == nil {
			pools.OfPool(pool).Expect(in.known.Size, c.from.trip)
		}
		if err := pace.Sleep(c.Ctx, left); err != nil {
			return err
		}
	}
	if err := in.host.Refresh(); endpoint.Refused(err) {
		return nil // the bytes read until then are compared
	} else if err != nil {
		return err
	}
	in.known = *in.host.Info()
	if now := in.host.File.FileStat(); r.isAbout(now) {
		c.known.racy = nil
	} else { // it was written to meanwhile
		c.known.racy = newRacySource(c.from, now)
	}
	return nil
}

// remember starts to hash the data read for a target elsewhere: the beginning of a source that may
// be racy, and everything if the server is known to change the times of files being read. Then only
// the contents show at the end whether the file is unchanged.
func (s *sameness) remember() {
	t, from := &s.in.copy.known, s.in.copy.from
	s.racy = t.racy
	s.racy.remember()
	if t.prefix == nil &&
		(from.quirks().Touches.Load() || private.OfClient(from.client).Touches()) {
		t.prefix = new(prefixHash)
	}
	if s.prefix = t.prefix; s.prefix != nil {
		s.prefix.remember()
	}
}

// remembers reports whether read data must be fed.
func (s *sameness) remembers() bool { return s.racy != nil || s.prefix != nil }

// feed takes data read at an offset.
func (s *sameness) feed(data []byte, off int64) {
	if shared := s.in.shared; shared != nil && !shared.Oldest().IsZero() {
		s.racy.since(shared.Oldest())
	}
	s.racy.feed(data, off)
	s.prefix.feed(data, off)
}

// unchanged does the work of input.unchanged for an open file.
func (s *sameness) unchanged(n int64, local reopen) error {
	in, c := s.in, s.in.copy
	now, err := in.file.Stat() // it ends a stream, whose handles are proved then
	switch {
	case s.mixed == errTouched:
		return s.onlyTouched(n, local)
	case s.mixed != nil:
		return s.mixed
	case err == nil:
	case in.host == nil || !errors.Is(err, errors.ErrUnsupported) && c.interrupted():
		return err
	default:
		now = in.known // a server without FSTAT offers nothing newer to compare with
	}
	if err := Unchanged(&in.known, &now, n); err == errTouched && in.host != nil {
		return s.onlyTouched(n, local)
	} else if err != nil {
		return err
	}
	if in.host == nil || c.verifies() && c.to == nil { // the source itself is compared
		return nil
	}
	return c.known.racy.check(c, in.host.File, n, local)
}

// onlyTouched checks that a source whose time changed while it was read has the contents that
// arrived, by the host's hashes or by reading all of it again. A sample would not do, since a real
// write changes the time too. rclone's SFTP server shows the current time for files in its cache
// (--vfs-cache-mode).
func (s *sameness) onlyTouched(n int64, local reopen) error {
	var same bool
	var err error
	in, c := s.in, s.in.copy
	switch {
	case private.OfClient(c.from.client).ReadsOnce():
		return errTouched
	case s.prefix.remembers() && s.prefix.fed == n:
		var now []byte
		now, err = c.known.again.hash(c, in.host.File, n)
		same = bytes.Equal(now, s.prefix.sum.Sum(nil))
	case c.to == nil && local != nil:
		same, err = s.sameAs(n, local)
	default:
		return errTouched // the arrived data is not here, and was not hashed
	}
	if err != nil {
		return err
	}
	if !same {
		return ErrSourceChanged
	}
	if c.Listed != nil && c.Listed.HasTimes { // restore the time from before it was read
		in.known.Mtime, in.known.Atime = c.Listed.Mtime, c.Listed.Atime
	}
	if !c.from.quirks().Touches.Swap(true) {
		why := "some servers report the current time for files that are read"
		if c.Result.InPlace {
			why += ", or the target is the source itself, under another name"
		}
		c.Note("the time of the source changed while it was copied, and its contents did not: " +
			why + " (reported once for all files of the host)")
	}
	return nil
}

// sameAs compares the first n bytes of the source with the copy on this machine.
func (s *sameness) sameAs(n int64, local reopen) (bool, error) {
	c, f := s.in.copy, s.in.host.File
	file, err := interruptible(c.Ctx, local)()
	if err != nil {
		return false, err
	}
	defer file.Close()
	if same, known := c.from.prover().begins(c.Ctx, f, file, n); known {
		return same, nil
	}
	again := f.ReadRange(0, n)
	defer again.Close()
	return matches(c, io.TeeReader(again, c.Limiter.Writer(io.Discard)), file, n)
}

// inherit takes over from the journal that an earlier run found the source racy.
func (s *sameness) inherit(m *journal.Mark) {
	in, c := s.in, s.in.copy
	if in.host != nil && m.RacyBytes > 0 && !c.known.racy.isRacy(c.Ctx) {
		r := &racySource{first: in.host.File.FileStat(), began: time.Now(), suspect: true}
		r.readTo.Store(m.RacyBytes)
		c.known.racy = r
	}
}

// Unchanged compares a source before reading with the same afterwards, and its size with the number
// of bytes read. A file of size 0 may hold data all the same, as in /proc.
func Unchanged(before, after *endpoint.Info, read int64) error {
	switch {
	case after.Size < before.Size:
		return changedf("it shrank from %d bytes to %d", before.Size, after.Size)
	case after.Size > before.Size:
		return changedf("it grew from %d bytes to %d", before.Size, after.Size)
	case before.Size > 0 && read != before.Size:
		return changedf("it had %d bytes and %d were read", before.Size, read)
	case !before.Mtime.Equal(after.Mtime):
		return errTouched
	}
	return nil
}

// errTouched reports that only a source's modification time changed.
var errTouched = fmt.Errorf("%w: %w", ErrSourceChanged, endpoint.ErrTouched)
