package objectfs

import (
	"cmp"
	"context"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
)

// send sends a part without blocking the writer. The caller holds the lock.
func (w *writer) send(index int) {
	p := w.parts[index]
	p.sending = true
	w.fs.memory.sends(&w.account, p)
	length := min(p.length, w.size-p.start)
	gaps, shows := p.written.gaps(length), w.shows
	go func() {
		stored, err := w.sendPart(index, p, length, gaps, shows)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.drop(index)
		w.result(index, stored, err)
	}()
}

// result records the outcome of sending a part. The caller holds the lock.
func (w *writer) result(index int, stored Part, err error) {
	w.wrote = time.Now() // until now the client may have waited for this
	if err == nil {
		w.stored[index] = stored
	} else if w.err == nil {
		w.err = err
	}
	w.changed.Broadcast()
}

func (w *writer) sendPart(index int, p *part, length int64, gaps []span,
	shows int64) (Part, error) {
	u, err := w.begin(len(gaps) > 0)
	if err != nil {
		return Part{}, err
	}
	if err := w.fillGaps(p, gaps, shows); err != nil {
		return Part{}, err
	}
	return w.uploadPart(u, index, p.body(length))
}

// uploadPart stores one part. Its length is the number of bytes sent, whatever the answer says.
func (w *writer) uploadPart(u Upload, index int, body *io.SectionReader) (Part, error) {
	stored, err := w.fs.bucket.UploadPart(w.work, u.Target, u.ID, index+1, body)
	stored.Number, stored.Size = index+1, body.Size()
	return stored, unlessGone(err)
}

// begin creates the upload unless there is one. broken says that a part is about to be stored that
// contains bytes the client has not sent.
func (w *writer) begin(broken bool) (Upload, error) {
	w.beginning.Lock()
	defer w.beginning.Unlock()
	u := w.upload
	if u.ID != "" && u.ETag == "" && (u.Broken || !broken) {
		return u, nil
	}
	u.ETag = "" // of the parts before
	if u.Broken = u.Broken || broken || w.when.ETag != ""; u.ID == "" {
		id, err := w.fs.bucket.CreateUpload(w.work, u.Target)
		if err != nil {
			return u, err
		}
		u.ID, u.Begun = id, time.Now()
	}
	w.upload = u // whatever happens now, Abandon knows of it
	return u, w.fs.update(w.work, &w.upload)
}

// fillGaps fills the unwritten ranges of a part: with the old file's bytes, and with zeros beyond
// them.
func (w *writer) fillGaps(p *part, gaps []span, shows int64) error {
	for _, gap := range gaps {
		old := min(max(shows-p.start, gap.from), gap.to)
		if old > gap.from {
			if err := w.readBase(p, span{gap.from, old}); err != nil {
				return err
			}
		}
		if err := p.fillGap(span{old, gap.to}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) readBase(p *part, gap span) error {
	body, err := w.fs.get(w.work, w.base, p.start+gap.from, gap.to-gap.from)
	if err != nil {
		return err
	}
	defer body.Close()
	return p.fillGap(gap, body)
}

// complete makes sure that every part of the file is stored, and returns the parts. Nothing else
// uses the writer any more.
func (w *writer) complete() ([]Part, error) {
	for index, p := range w.parts {
		if !p.sending {
			if err := w.grow(p, w.size-p.start); err != nil {
				w.await() // parts in flight must not be dropped
				return nil, err
			}
			w.send(index)
		}
	}
	w.await()
	parts, err := w.storeRest()
	return parts, cmp.Or(err, w.err)
}

// await waits until nothing is being sent, and no call waits for memory. The caller holds the lock.
func (w *writer) await() {
	for w.sending() > 0 || w.taking {
		w.changed.Wait()
	}
}

// storeRest stores the parts that nothing was written to, and returns all parts. The storage copies
// the contents of the old file itself, many parts at once.
func (w *writer) storeRest() (parts []Part, err error) {
	group, copying := errgroup.WithContext(w.work)
	group.SetLimit(atOnce)
	var all []*Part
	for at := int64(0); at < w.size && err == nil && w.err == nil; {
		index := w.fs.layout.at(at)
		p, ok := w.stored[index]
		_, length := w.fs.layout.span(index)
		if end := min(at+length, w.size); !ok && end <= w.shows {
			p = Part{Number: index + 1, Size: w.untouched(index, end) - at}
			from := at
			group.Go(func() error { return w.copyPart(copying, &p, from) })
		} else if !ok {
			p, err = w.storeOne(index, at, end)
		}
		all = append(all, &p)
		at += p.Size
	}
	if err := cmp.Or(group.Wait(), err); err != nil {
		return nil, err
	}
	for _, p := range all {
		parts = append(parts, *p)
	}
	return parts, nil
}

// copyPart copies a part from the old file.
func (w *writer) copyPart(ctx context.Context, p *Part, at int64) error {
	u, err := w.begin(true)
	if err != nil {
		return err
	}
	made, err := w.fs.bucket.CopyPart(ctx, u.Target, u.ID, p.Number, w.base.Key, w.base.ETag, at,
		p.Size)
	p.ETag = made.ETag
	return unlessGone(err)
}

// storeOne stores a part that lies beyond the end of the old file, or across it.
func (w *writer) storeOne(index int, at, end int64) (Part, error) {
	if at >= w.shows {
		u, err := w.begin(true)
		if err != nil {
			return Part{}, err
		}
		return w.uploadPart(u, index, io.NewSectionReader(zeros{}, 0, end-at))
	}
	if err := w.take(index, end-at); err != nil {
		return Part{}, err
	}
	defer w.drop(index)
	p := w.parts[index]
	return w.sendPart(index, p, end-at, p.written.gaps(end-at), w.shows)
}

// untouched returns the end of the unchanged parts of the old file, from a part that ends at end.
func (w *writer) untouched(index int, end int64) int64 {
	first, _ := w.fs.layout.span(index)
	for end < w.size {
		index++
		start, length := w.fs.layout.span(index)
		next := min(start+length, w.size)
		if _, ok := w.stored[index]; ok || next > w.shows || next-first > MaxCopy {
			break
		}
		end = next
	}
	return end
}
