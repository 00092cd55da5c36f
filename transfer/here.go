package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/usftp/usftp/internal/filecopy"
)

// A job whose Direction is Local copies from this machine to itself, with no host: a target comes
// to be as that of a download does.

// errSameFile says that source and target are one file: to write the one would be to lose the
// other.
var errSameFile = errors.New("source and target are the same file")

// errNoRereading says that what was copied is gone.
var errNoRereading = fmt.Errorf("%w: it cannot be verified: only files can be read again",
	errors.ErrUnsupported)

// copyHere copies from this machine to itself.
func (r *run) copyHere() error {
	from, err := r.openHere()
	if err != nil {
		return err
	}
	defer from.close()
	if r.Writer != nil {
		r.tellStarted()
		if r.Options.Verify {
			return errNoRereading
		}
		return r.pour(r.Writer, from)
	}
	target, err := r.placeHere()
	if target != nil {
		r.result.Target = target.path
	}
	if err != nil {
		return err
	}
	defer target.close()
	if from.before != nil && target.before != nil && os.SameFile(from.before, target.before) {
		return errSameFile
	}
	if !r.Options.Verify && r.kept(target.before, target.path, from.again(r.Source)) {
		return errKept
	}
	r.tellStarted()
	var known facts
	if from.before != nil {
		known = localFacts(from.before)
	}
	r.beginAnew(target.path, target.left)
	if err := r.createFile(target, known); err != nil {
		return err
	}
	r.result.InPlace = target.temporary == ""
	if err = r.fill(target, from); err == nil {
		err = r.finishFile(target, known)
	}
	if err != nil {
		r.abandonHere(target)
	} else if r.stale != "" {
		target.root.Remove(filepath.Base(r.stale))
	}
	return err
}

// openHere opens the source.
func (r *run) openHere() (*source, error) {
	r.size = -1
	if r.Reader != nil {
		return r.openSource()
	}
	from := &source{listed: r.isListed()}
	if r.item != nil {
		from.before = r.item.facts.info
	}
	if err := from.open(r.ctx, r.Source); err != nil {
		return nil, err
	}
	if from.before.Mode().IsRegular() {
		r.size = from.before.Size()
	}
	return from, nil
}

// placeHere looks at the target.
func (r *run) placeHere() (*localTarget, error) {
	if r.item != nil {
		return r.itemTarget()
	}
	t, err := findLocal(r.Target, filepath.Base(r.Source))
	if t != nil {
		r.name = t.called
	}
	return t, err
}

// fill copies the contents and makes sure of them.
func (r *run) fill(t *localTarget, from *source) error {
	file, ok := from.file.(*os.File)
	if !ok || !from.before.Mode().IsRegular() || t.before != nil && !t.before.Mode().IsRegular() {
		if r.Options.Verify {
			return errNoRereading
		}
		return r.pour(t.file, from)
	}
	var moved atomic.Int64
	if !r.isSmall(r.size) {
		defer r.watch(moved.Load)()
	}
	options := filecopy.Options{Zeros: r.Options.Sparse, Each: func(n int64) error {
		moved.Add(n)
		if r.limiter == nil {
			return nil
		}
		return r.limiter.wait(int(n))
	}}
	if r.limiter != nil {
		options.Piece = limitedPiece
	}
	if r.digests = r.newDigests(r.size); len(r.digests) > 0 {
		options.Hash = digestWriter{r.digests}
	}
	n, err := filecopy.Copy(r.ctx, t.file, file, options)
	r.result.Bytes = n
	if err == nil {
		err = from.changed(n)
	}
	if err == nil {
		r.digests.finish()
		err = r.finishHashing()
	}
	if err == nil && r.Options.Verify {
		err = r.compareHere(t, from)
	}
	return err
}

// compareHere reads the target back and compares it with the source.
func (r *run) compareHere(t *localTarget, from *source) error {
	stored, err := t.root.Open(t.written())
	if err != nil {
		return err
	}
	defer stored.Close()
	n, err := io.CopyBuffer(&comparer{at: from.file, size: r.size},
		interruptedReader{r.ctx, stored}, make([]byte, 256<<10))
	switch {
	case errors.Is(err, errDiffers), err == nil && n != r.result.Bytes:
		return ErrVerify
	case err != nil:
		return err
	}
	r.verified = VerifiedByReading
	return nil
}

// pour copies what is no file, or goes to none.
func (r *run) pour(sink io.Writer, from *source) error {
	var moved atomic.Int64
	defer r.watch(moved.Load)()
	r.startHashing(nil)
	n, err := io.Copy(countingWriter{r.passWriter(r.limitWriter(sink)), &moved},
		interruptedReader{r.ctx, from.Reader})
	r.result.Bytes = n
	if err == nil {
		err = from.changed(n)
	}
	if err == nil {
		err = r.finishHashing()
	}
	return err
}

// digestWriter hashes what a copy gives it.
type digestWriter struct{ digests }

func (w digestWriter) Write(p []byte) (int, error) {
	w.write(p)
	return len(p), nil
}

// interruptedReader ends with a context, and hides from io.Copy what its reader is.
type interruptedReader struct {
	ctx    context.Context
	source io.Reader
}

func (r interruptedReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.source.Read(p)
}

// countingWriter counts what a writer has taken.
type countingWriter struct {
	sink  io.Writer
	taken *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.sink.Write(p)
	w.taken.Add(int64(n))
	return n, err
}

// abandonHere ends a copy that has failed. What an interruption leaves is not worth keeping: to go
// on from it, all of it would have to be compared, which takes as long as copying it.
func (r *run) abandonHere(t *localTarget) {
	t.file.Close()
	switch {
	case r.result.LeftBehind != "": // the rename failed
	case t.temporary == "":
		r.detail = "the target was written in place and is not complete"
	default:
		t.root.Remove(t.temporary)
	}
}

// hereSource is the source of a tree whose target is on this machine too.
type hereSource struct {
	localSource
	tree *treeRun
}

// loops tells also of links that lead to the copy.
func (s hereSource) loops(d *directory) string {
	if target, ok := s.tree.target.(*localTree); ok && target.top != nil {
		if info, err := target.top.Stat(target.base); err == nil &&
			os.SameFile(info, d.facts.info) {
			return "it is the copy itself"
		}
	}
	return s.localSource.loops(d)
}

var errIntoItself = errors.New("a directory cannot be copied into itself")

// checkHere refuses to copy a directory into itself or one that lies in it, or to itself.
func (t *treeRun) checkHere(base string, source os.FileInfo) error {
	if info, err := os.Stat(filepath.Join(t.Target, base)); err == nil &&
		os.SameFile(info, source) {
		return errIntoItself
	}
	above := t.Target
	if _, err := os.Stat(above); err != nil {
		above = filepath.Dir(above)
	}
	above, err := filepath.EvalSymlinks(above)
	if err == nil {
		above, err = filepath.Abs(above)
	}
	for err == nil {
		info, err := os.Stat(above)
		if err == nil && os.SameFile(info, source) {
			return errIntoItself
		}
		next := filepath.Dir(above)
		if next == above {
			break
		}
		above = next
	}
	return nil // where nothing is known of the target, making it will say why
}

// measureHere decides how many files are copied at once: what takes time is the kernel's work on
// names, on as many processors as there are.
func (t *treeRun) measureHere() {
	t.small = largestSmall
	t.allow(1<<20, 2*runtime.GOMAXPROCS(0))
}
