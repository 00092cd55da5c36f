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
)

// doubt is about a source on a host that was written to just before it was read. SFTP's times are
// whole seconds (draft-ietf-secsh-filexfer-02, section 5), so whoever writes to it again in the second
// of its time leaves no trace in its attributes. That second ends at most a second after the first
// look: what was read until then is compared once more at the end, however long the copy takes.
//
// SFTP has no clock either. A host's time is taken to be ours, unless it stamps the file with the
// time of our reading, which shows that it is behind. What remains is a host whose clock is behind
// ours by more than doubtFor, that keeps no times of reading (or is behind by more than mostBehind, if
// what it sends goes to another host or to a stream), and whose file is written to in the very second
// in which it is read first.
type doubt struct {
	first   *usftp.FileStat // the first look
	suspect bool            // the second of its time may not be over
	began   time.Time
	bound   atomic.Int64 // the offset up to which it was read then

	passed passed // what was read then, if it cannot be read again on this machine
	again  reread // what the source has now
}

const (
	// doubtFor is how long what is read is in doubt: the rest of a second, and a second for clocks
	// that do not agree.
	doubtFor = 2 * time.Second

	// mostBehind is how far behind ours a host's clock may be for that to be found out, where what
	// was read is not stored on this machine: until then the beginning of each source is hashed.
	mostBehind = 24 * time.Hour

	// mostAsked is what one connection may have asked for ahead of what has arrived.
	mostAsked = 16 << 20
)

// newDoubt looks at a source that may have been written to just now, nil if that does not matter:
// what travels in one packet is read at one moment.
func newDoubt(client *usftp.Client, stat *usftp.FileStat) *doubt {
	if stat == nil || !stat.HasTimes() || !stat.HasSize() || !stat.FileMode().IsRegular() {
		return nil
	}
	if read, _, err := private.OfClient(client).DataSizes(); err != nil || stat.Size <= uint64(read) {
		return nil
	}
	now := time.Now()
	d := &doubt{first: stat, began: now, suspect: !stat.ModTime().Before(now.Add(-doubtFor))}
	d.bound.Store(math.MaxInt64)
	return d
}

// inheritDoubt is about what an earlier run doubted, if this one continues from it.
func inheritDoubt(stat *usftp.FileStat, bound int64) *doubt {
	d := &doubt{first: stat, began: time.Now(), suspect: true}
	d.bound.Store(bound)
	return d
}

// certain reports whether the source is in doubt already.
func (d *doubt) certain() bool { return d != nil && d.suspect }

// isAbout reports whether a source is still what it was at the first look.
func (d *doubt) isAbout(stat *usftp.FileStat) bool {
	return d != nil && d.first.Size == stat.Size && d.first.Mtime == stat.Mtime
}

// watch notes how far the source was read when the time is over. What was asked for by then may have
// been read too.
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
				others, _ := s.host.Pool.Sessions()
				ahead += int64(len(others)) * mostAsked
			}
		}
		d.bound.CompareAndSwap(math.MaxInt64, position()+ahead)
	})
	return func() {
		if !timer.Stop() {
			<-done // the next try replaces the connections that it looks at
		}
	}
}

// remember keeps in mind what passes, for a source that is read where nothing stays: one that is in
// doubt, or may turn out to be at the end.
func (d *doubt) remember() {
	if d != nil && (d.suspect || d.began.Sub(d.first.ModTime()) < mostBehind) {
		d.passed.remember()
	}
}

// feed takes what was read at an offset. It may come twice.
func (d *doubt) feed(data []byte, off int64) {
	if d != nil && d.passed.fed < d.bound.Load() {
		d.passed.feed(data, off)
	}
}

// passed hashes what is read where nothing stays, in order. A nil passed hashes nothing, nor does one
// that was not told to remember.
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

// wait waits until the second of the source's time is over. It is for what a host copies itself, of
// which nothing passes here.
func (d *doubt) wait(ctx context.Context) error {
	select {
	case <-time.After(time.Until(d.began.Add(doubtFor))):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle compares what is in doubt with what the source has now, of which n bytes were copied. local
// opens what has arrived, nil if it cannot be read again.
func (d *doubt) settle(c *fileCopy, f *usftp.File, n int64, local reopen) error {
	if d == nil {
		return nil
	}
	if after := f.FileStat(); !d.suspect && after.HasTimes() && after.Atime != d.first.Atime {
		// the host's clock was not behind this when it was first looked at
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
	now, err := d.again.hash(c, f, n)
	switch {
	case err != nil:
		return err
	case now == nil:
		c.note("the source was written to just before it was copied, and cannot be read again to make sure that it was not meanwhile")
	case !bytes.Equal(sum, now):
		return changedf("its contents did, within the second of its time")
	}
	return nil
}

// hash hashes the first n bytes of a source as they are now: the host does if it can, otherwise they
// are read again; nil if they cannot be. If the connection is lost, the next try continues.
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
