package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// doubt is about a source on a host that was written to just before it was read. SFTP has times in
// whole seconds (draft-02, section 5), so whoever writes to it again in the second of its time
// leaves no trace in its attributes. That second is over a second after the first look at the
// latest: what was read until then is compared once more in the end, however long the copy lasts.
//
// SFTP has no clock either. A host's time is taken for ours, unless it stamps the file with the time
// of our reading, which shows that it is behind. What remains: a host whose clock is behind ours by
// more than doubtFor, that keeps no times of reading, and whose file is written to in the very
// second in which it is read for the first time.
type doubt struct {
	first   *usftp.FileStat // the first look
	suspect bool            // the second of its time may not be over
	began   time.Time
	bound   atomic.Int64 // the offset up to which it was read then

	// what was read, where it cannot be read on this machine again; sum is nil where it can
	sum hash.Hash
	fed int64
}

const (
	// doubtFor is how long what is read is in doubt: the rest of a second, and a second for clocks
	// that do not agree.
	doubtFor = 2 * time.Second

	// mostAsked is what one connection may have asked for ahead of what has arrived.
	mostAsked = 16 << 20
)

// doubts begins to keep in mind what is read of a source, where it may have been written to just
// now. What travels in one packet is read at one moment.
func (r *run) doubts(client *usftp.Client, stat *usftp.FileStat) {
	if stat == nil || !stat.HasTimes() || !stat.HasSize() || !stat.FileMode().IsRegular() ||
		r.doubt != nil && r.doubt.suspect {
		return
	}
	if read, _, err := private.OfClient(client).DataSizes(); err != nil || stat.Size <= uint64(read) {
		return
	}
	now := time.Now()
	r.doubt = &doubt{first: stat, began: now, suspect: !stat.ModTime().Before(now.Add(-doubtFor))}
	r.doubt.bound.Store(math.MaxInt64)
}

// suspect reports whether the source is in doubt already.
func (r *run) suspect() bool { return r.doubt != nil && r.doubt.suspect }

// boundDoubt notes how far the source was read when the time is over. What was asked for by then
// may have been read too.
func (r *run) boundDoubt(progress func() int64) (stop func()) {
	d := r.doubt
	if d == nil || d.bound.Load() != math.MaxInt64 {
		return func() {}
	}
	timer := time.AfterFunc(time.Until(d.began.Add(doubtFor)), func() {
		ahead := int64(mostAsked)
		for _, host := range []*Host{&r.Host, &r.From} {
			if host.Pool != nil {
				clients, _ := host.Pool.others()
				ahead += int64(len(clients)+1) * mostAsked
			}
		}
		d.bound.CompareAndSwap(math.MaxInt64, progress()+ahead)
	})
	return func() { timer.Stop() }
}

// feed takes what was read at an offset, where it cannot be read again on this machine. It may come
// twice.
func (d *doubt) feed(data []byte, off int64) {
	if d == nil || d.sum == nil || off > d.fed || off+int64(len(data)) <= d.fed ||
		d.fed >= d.bound.Load() {
		return
	}
	d.sum.Write(data[d.fed-off:])
	d.fed = off + int64(len(data))
}

// rememberDoubt has what passes kept in mind, for a source that is read where nothing stays.
func (r *run) rememberDoubt() {
	if r.suspect() && r.doubt.sum == nil {
		r.doubt.sum = sha256.New()
	}
}

// waitForDoubt waits until the second of the source's time is over, where it may not be. It is for
// what a host copies by itself, of which nothing passes here.
func (r *run) waitForDoubt(from *source) error {
	if !r.suspect() {
		return nil
	}
	if !pause(r.ctx, time.Until(r.doubt.began.Add(doubtFor))) {
		return context.Cause(r.ctx)
	}
	r.doubt = nil
	from.file.(*remoteFile).doubt = nil
	return from.changed(from.before.Size())
}

// doubtWriter feeds what its writer has taken.
type doubtWriter struct {
	io.Writer
	doubt *doubt
}

func (w doubtWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.doubt.feed(p[:max(0, min(n, len(p)))], w.doubt.fed)
	return n, err
}

func (r *run) doubtWriter(sink io.Writer) io.Writer {
	if r.doubt == nil || r.doubt.sum == nil {
		return sink
	}
	return doubtWriter{sink, r.doubt}
}

// inheritDoubt keeps in mind what an earlier run was in doubt about, where this one goes on from it.
func (r *run) inheritDoubt(before *usftp.FileStat, m *mark) {
	if m.SourceDoubt == 0 || r.suspect() {
		return
	}
	r.doubt = &doubt{first: before, began: time.Now(), suspect: true}
	r.doubt.bound.Store(m.SourceDoubt)
}

// settleDoubt compares what is in doubt with what the source has now. local opens what has arrived,
// nil where it cannot be read again.
func (r *run) settleDoubt(f *usftp.File, local reopen) error {
	d := r.doubt
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
	n := min(d.bound.Load(), r.result.Bytes)
	var sum []byte
	switch {
	case d.sum != nil:
		n, sum = d.fed, d.sum.Sum(nil)
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
	now, err := r.hashSource(f, n)
	switch {
	case err != nil:
		return err
	case now == nil:
		r.note("the source was written to just before it was copied, and cannot be read again to make sure that it was not meanwhile")
	case !bytes.Equal(sum, now):
		return fmt.Errorf("%w: its contents have, in the second of its time", ErrSourceChanged)
	}
	return nil
}

// hashSource hashes the first n bytes of a source: the host does where it can, else they are read
// again; nil where they cannot be.
func (r *run) hashSource(f *usftp.File, n int64) ([]byte, error) {
	if n <= hashPiece && f.Client().HasCheckFile() {
		hashes, err := f.CheckFile(usftp.CheckFile{Algorithms: []string{"sha256"}, Length: n})
		if err == nil && hashes.Algorithm == "sha256" && len(hashes.Hashes) == 1 {
			return hashes.Hashes[0], nil
		}
	}
	if private.OfClient(f.Client()).ReadsOnce() {
		return nil, nil
	}
	again := f.ReadRange(0, n)
	defer again.Close()
	h := sha256.New()
	_, err := io.Copy(h, r.limitReader(again))
	return h.Sum(nil), err
}
