package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
)

// doubt concerns a source on a host that was written to just before it was read. SFTP's times are
// whole seconds (draft-ietf-secsh-filexfer-02, section 5), so another write within the second of
// the file's mtime leaves no trace in its attributes. That second ends at most one second after the
// first look at the file: what was read until then is compared again at the end, however long the
// copy takes.
//
// SFTP has no clock either. We assume that the host's clock agrees with ours, unless its /proc or
// the file's atime shows that it is behind. What remains undetected is a write within the second in
// which the file is first read, on a host whose clock is behind ours by more than doubtFor and that
// shows neither (or is behind by more than mostBehind).
type doubt struct {
	first   *usftp.FileStat // as first seen
	clock   *quirks.Clock   // the host's; nil if it does not matter or cannot be known
	suspect bool            // the second of its mtime may not be over
	shared  bool            // other copies may have read parts of it
	began   time.Time
	bound   atomic.Int64 // how far it may have been read by then

	passed passed // hash of that, if it cannot be read again on this machine
	again  reread // what the source holds now
}

const (
	// doubtFor is how long what is read is in doubt: the rest of a second, and a second for clocks
	// that disagree.
	doubtFor = 2 * time.Second

	// mostBehind is how far behind ours a host's clock may be for that to be noticed. Older sources
	// are not in doubt; the beginning of all others is hashed if the data is not stored on this
	// machine.
	mostBehind = 24 * time.Hour

	// readAtOnce is how much a server reads at once when it copies a file itself: the size of
	// sftp-server's buffer.
	readAtOnce = 64 << 10

	// mostAsked is how much one connection may have requested beyond what has arrived.
	mostAsked = 16 << 20
)

// newDoubt returns the doubt about a source, or nil if nothing is known of it.
func newDoubt(s *session, stat *usftp.FileStat) *doubt {
	if stat == nil || !stat.HasTimes() || !stat.HasSize() || stat.Size == 0 ||
		!stat.FileMode().IsRegular() {
		return nil
	}
	now := time.Now()
	d := &doubt{first: stat, began: now, suspect: !stat.ModTime().Before(now.Add(-doubtFor))}
	d.bound.Store(math.MaxInt64)
	if !d.suspect && d.young() && private.OfClient(s.client).WorksInOrder() { // as OpenSSH's does
		d.clock = &s.quirks().Clock
		d.clock.Ask(s.client)
	}
	return d
}

// young reports whether the source was written to recently enough for the host's clock to matter.
func (d *doubt) young() bool { return d.began.Sub(d.first.ModTime()) < mostBehind }

// inheritDoubt returns the doubt that an earlier run had, for this one to continue.
func inheritDoubt(stat *usftp.FileStat, bound int64) *doubt {
	d := &doubt{first: stat, began: time.Now(), suspect: true}
	d.bound.Store(bound)
	return d
}

// certain reports whether the source is already in doubt. It may wait for a reply; if ctx ends
// first, the source is in doubt, to be safe.
func (d *doubt) certain(ctx context.Context) bool {
	if d == nil || d.suspect || d.clock == nil {
		return d != nil && d.suspect
	}
	behind, known, err := d.clock.Behind(ctx)
	return err != nil || known && !d.first.ModTime().Before(d.began.Add(-behind-doubtFor))
}

// everywhere extends the doubt to all of the source, of which other copies may have read any part.
func (d *doubt) everywhere() {
	if d != nil {
		d.shared = true
		d.bound.CompareAndSwap(math.MaxInt64, math.MaxInt64-1)
	}
}

// since takes into account that part of the source was already read at some time, for another copy.
func (d *doubt) since(when time.Time) {
	if d != nil && when.Before(d.began) {
		d.began = when
		d.suspect = d.suspect || !d.first.ModTime().Before(when.Add(-doubtFor))
	}
}

// atOnce reports whether all n bytes that were read came in one reply. The server then read them at
// one moment.
func (d *doubt) atOnce(c *fileCopy, f *usftp.File, n int64) bool {
	return c.result.Resumed == 0 && !d.shared && d.bound.Load() >= n &&
		private.OfFile(f).Answers() == 1
}

// isAbout reports whether a source is still as first seen.
func (d *doubt) isAbout(stat *usftp.FileStat) bool {
	return d != nil && d.first.Size == stat.Size && d.first.Mtime == stat.Mtime
}

// watch records how far the source was read when the doubtful time is over. What was requested by
// then may have been read too.
func (d *doubt) watch(ends *ends, position func() int64) (stop func()) {
	if d == nil || d.bound.Load() != math.MaxInt64 {
		return func() {}
	}
	done := make(chan struct{})
	timer := time.AfterFunc(time.Until(d.began.Add(doubtFor)), func() {
		defer close(done)
		ahead := int64(0)
		for _, s := range ends.all() {
			ahead += mostAsked
			if s.host.Pool != nil {
				others, _ := pools.OfPool(s.host.Pool).Sessions()
				ahead += int64(len(others)) * mostAsked
			}
		}
		d.bound.CompareAndSwap(math.MaxInt64, position()+ahead)
	})
	return func() {
		if !timer.Stop() {
			<-done // the next attempt replaces the connections that it uses
		}
	}
}

// remember hashes what passes, for data that is not stored here: if the source is in doubt, or may
// turn out to be at the end.
func (d *doubt) remember() {
	if d != nil && (d.suspect || d.young()) {
		d.passed.remember()
	}
}

// feed takes what was read at an offset. The same data may come twice.
func (d *doubt) feed(data []byte, off int64) {
	if d != nil && d.passed.fed < d.bound.Load() {
		d.passed.feed(data, off)
	}
}

// passed hashes what is read, in order, if it is not stored on this machine. A nil passed hashes
// nothing, nor does one before remember is called.
type passed struct {
	sum hash.Hash
	fed int64 // from the beginning of the file
}

func (p *passed) remember() {
	if p.sum == nil {
		p.sum = sha256.New()
	}
}

func (p *passed) remembers() bool { return p != nil && p.sum != nil }

func (p *passed) feed(data []byte, off int64) {
	if !p.remembers() || off > p.fed || off+int64(len(data)) <= p.fed {
		return
	}
	p.sum.Write(data[p.fed-off:])
	p.fed = off + int64(len(data))
}

// wait waits until the second of the source's mtime is over. It is for files that a host copies
// itself, whose data does not pass through here.
func (d *doubt) wait(ctx context.Context) error {
	select {
	case <-time.After(time.Until(d.began.Add(doubtFor))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle compares what is in doubt with what the source holds now. n bytes were copied; local opens
// the copy, nil if it cannot be read again.
func (d *doubt) settle(c *fileCopy, f *usftp.File, n int64, local reopen) error {
	if d == nil || d.atOnce(c, f, n) {
		return nil
	}
	d.suspect = d.certain(c.ctx)
	if after := f.FileStat(); !d.suspect && after.HasTimes() && after.Atime != d.first.Atime {
		// the host's clock when the file was first seen was at least this
		then := int64(after.Atime) - int64(time.Since(d.began)/time.Second) - 1
		d.suspect = int64(d.first.Mtime) >= then
	}
	if !d.suspect {
		return nil
	}
	n = min(d.bound.Load(), n)
	var sum []byte
	switch {
	case d.passed.remembers():
		n, sum = d.passed.fed, d.passed.sum.Sum(nil)
	case local != nil:
		file, free, err := local()
		if err != nil {
			return err
		}
		defer free()
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
	now, err := d.again.hash(c, f, n)
	switch {
	case err != nil:
		return err
	case now == nil:
		c.warn("the source was written to just before it was copied, and cannot be read again to check that it did not change")
	case !bytes.Equal(sum, now):
		return changedf("its contents did, within one second")
	}
	return nil
}

// hash hashes the first n bytes of a source as they are now, on the host if possible, otherwise by
// reading them again. It returns nil if neither is possible. If the connection is lost, the next
// attempt continues.
func (r *reread) hash(c *fileCopy, f *usftp.File, n int64) ([]byte, error) {
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
