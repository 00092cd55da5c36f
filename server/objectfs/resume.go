package objectfs

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// resume continues the pending upload.
func (w *writer) resume(ctx context.Context) error {
	w.mtime = w.upload.MTime
	if w.upload.Closed {
		w.waits, w.size = true, w.upload.Size
		return nil
	}
	parts, err := w.fs.keptParts(ctx, w.upload)
	switch {
	case absent(err): // it was aborted
		w.upload.ID = ""
		return fs.ErrNotExist
	case err != nil: // what there is may be continued later
		return err
	}
	w.resumed, w.kept = true, len(parts)
	if w.kept == 0 && w.upload.ETag != "" {
		w.upload.Broken = true
	}
	for _, p := range parts[:max(len(parts)-1, 0)] { // as resumable tells
		w.stored[p.Number-1] = p
		w.size += p.Size
	}
	return nil
}

// Hash implements [server.FileHasher]: the ETag of a part is its MD5, unless the storage encrypts
// it. So a client can verify the kept parts, although nobody can read them.
func (w *writer) Hash(algorithm string, offset, length int64) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if algorithm != "md5" || offset >= w.size {
		return nil, errors.ErrUnsupported
	}
	index := w.fs.layout.at(offset)
	start, _ := w.fs.layout.span(index)
	p, ok := w.stored[index]
	sum, err := hex.DecodeString(p.ETag)
	if !ok || start != offset || p.Size != length || err != nil || len(sum) != md5.Size {
		return nil, errors.ErrUnsupported
	}
	return sum, nil
}

// goBack gives up the kept parts that begin at offset or later, where the client starts: scp, for
// one, starts at 0 and does not truncate. The caller holds the lock.
func (w *writer) goBack(offset int64) {
	w.resumed = false
	end, _ := w.fs.layout.span(len(w.stored))
	longer := w.size > end // the client has made it so
	for index, p := range w.stored {
		if start, _ := w.fs.layout.span(index); start >= offset {
			delete(w.stored, index)
			w.gaveUp += p.Size
			if !longer {
				w.size -= p.Size
			}
		}
	}
}

// limit keeps what the client gave up from being taken for the rest of its file: those parts are
// still stored.
func (w *writer) limit(u *Upload) {
	n := 0
	for _, ok := w.stored[n]; ok; _, ok = w.stored[n] {
		n++
	}
	switch {
	case w.gaveUp > 0 && n == 0:
		u.Broken = true
	case w.gaveUp > 0:
		u.Last = n
	case u.Last > 0:
		u.Last = max(u.Last, n)
	}
}

// resumable returns the parts of an abandoned upload that may be kept, and their total length. The
// last whole part is left out: if a client saw a file as long as its own, it would take it for
// complete.
func (f *FS) resumable(ctx context.Context, u Upload) ([]Part, int64, error) {
	list, err := f.keptParts(ctx, u)
	list = list[:max(len(list)-1, 0)]
	size, _ := f.layout.span(len(list))
	return list, size, err
}

// keptParts returns the whole parts of an abandoned upload, or none if another server has replaced
// one.
func (f *FS) keptParts(ctx context.Context, u Upload) ([]Part, error) {
	list, _, err := f.wholeParts(ctx, u)
	if u.ETag == "" {
		return list, err
	}
	_, parts, _ := strings.Cut(u.ETag, "-")
	n, parseErr := strconv.Atoi(parts)
	if parseErr != nil || n > len(list) || etagOf(list[:n]) != u.ETag {
		return nil, err
	}
	return list[:n], err
}

// etagOf returns the ETag of the object that parts make, as S3 computes it. Storage that encrypts
// may have another.
func etagOf(parts []Part) string {
	sum := md5.New()
	for _, p := range parts {
		one, err := hex.DecodeString(p.ETag)
		if err != nil {
			one = []byte(p.ETag)
		}
		sum.Write(one)
	}
	return fmt.Sprintf("%x-%d", sum.Sum(nil), len(parts))
}

// wholeParts returns the parts of an abandoned upload from its beginning up to the first that is
// missing or not whole, and how many bytes all its parts have.
func (f *FS) wholeParts(ctx context.Context, u Upload) (list []Part, stored int64, err error) {
	if u.ID == "" || u.Broken {
		return nil, 0, nil
	}
	list, err = f.listParts(ctx, u)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range list {
		stored += p.Size
	}
	n := 0
	for n < len(list) && list[n].Number == n+1 && (u.Last == 0 || n < u.Last) {
		if _, length := f.layout.span(n); list[n].Size != length {
			break
		}
		n++
	}
	return list[:n], stored, nil
}

var errPartsMissing = errors.New(
	"parts of the upload are missing in the storage, or were replaced: upload the file again")

// unlessGone says what to do if the storage has given up an upload, as a rule of the bucket may say,
// or removed the object that it copies from. It is not the client's file that is missing.
func unlessGone(err error) error {
	if absent(err) {
		return errPartsMissing
	}
	return err
}

// allParts returns the parts of an upload that the client has closed.
func (f *FS) allParts(ctx context.Context, u Upload) ([]Part, error) {
	list, err := f.listParts(ctx, u)
	if err != nil {
		return nil, err
	}
	var size int64
	for i, p := range list {
		if p.Number > u.Last { // a leftover of earlier writes
			list = list[:i]
			break
		}
		size += p.Size
	}
	if size != u.Size || u.ETag != "" && etagOf(list) != u.ETag {
		return nil, errPartsMissing
	}
	return list, nil
}

func (f *FS) listParts(ctx context.Context, u Upload) (all []Part, err error) {
	for after, more := 0, true; more; {
		var list []Part
		list, more, err = f.bucket.ListParts(ctx, u.Target, u.ID, after)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if n := len(all); n > 0 && all[n-1].Number == p.Number {
				all[n-1] = p // SeaweedFS lists overwritten parts, too
			} else if n == 0 || p.Number > all[n-1].Number {
				all = append(all, p)
			}
		}
		if len(list) == 0 || all[len(all)-1].Number <= after {
			break // the storage repeats itself
		}
		after = all[len(all)-1].Number
	}
	return all, nil
}
