package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"syscall"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// OnHost opens files over the pool.Host's connection.
type OnHost struct{ Host *pool.Host }

func (h OnHost) Open(ctx context.Context, name string, how Opening) (Reader, error) {
	f, trip, err := pools.OfHost(h.Host).OpenRead(ctx, name)
	if err != nil {
		return nil, err
	}
	if !f.AttrsCached() { // STAT was refused, and only the file's size reveals a short read
		f.WithContext(ctx).Stat()
	}
	r := &HostFile{File: f, Trip: trip, how: how, on: h}
	r.described()
	return r, nil
}

// ReadWhole implements Opener. It takes one round trip on hosts that offer get-files@usftp. On
// others, and if such a host refuses, it takes one for OPEN, and one more if the host works in
// order, two if not.
func (h OnHost) ReadWhole(_ context.Context, name string, _ Opening, info *Info,
	to Memory) error {
	size, client := int(info.Size), private.OfClient(h.Host.Client)
	lend := func() []byte { return to.Lend(size) }
	if size <= wire.LargestFile && client.GetsFiles() {
		to.Opened()
		to.Closing() // the server opens few at a time
		now, err := client.GetFile(name, size, lend)
		if !Refused(err) && !errors.Is(err, private.ErrOtherSize) {
			return sameAsListed(info, now, err)
		}
	}
	f := usftp.NewFile(h.Host.Client, name)
	to.Opening()
	if err := f.OpenRead(); err != nil {
		return err
	}
	to.Opened()
	now, err := private.OfFile(f).ReadClose(size, lend, to.Closing)
	return sameAsListed(info, now, err)
}

// sameAsListed sets info to what the host said with a file's contents, or returns ErrNotListed.
func sameAsListed(info *Info, now *usftp.FileStat, err error) error {
	if errors.Is(err, private.ErrOtherSize) ||
		err == nil && now != nil && !now.FileMode().IsRegular() {
		return ErrNotListed
	}
	if err == nil {
		info.setStat(now)
	}
	return err
}

// A HostFile is an open file on a host. Data read in order, by Read or ReadAt, comes from a stream
// that runs ahead of its reader; other ReadAts make their own requests.
type HostFile struct {
	File *usftp.File
	Trip time.Duration // the round trip of its OPEN

	// Ahead returns a stream from an offset on that replaces the file's own handle, or nil. Its Close
	// is called when the stream is no longer needed.
	Ahead func(off int64) io.ReadCloser

	on   OnHost
	how  Opening
	info Info
	guard

	off    int64 // of the next Read
	stream io.ReadCloser
	at     int64 // of the stream
}

// described takes over the attributes that the host last sent.
func (f *HostFile) described() {
	f.info.setStat(nil)
	if f.File.AttrsCached() {
		f.info.setStat(f.File.FileStat())
	}
	f.guard = guardOf(0)
	if f.how&Growing == 0 {
		f.guard = guardOf(f.info.Size)
	}
}

func (f *HostFile) Info() *Info { return &f.info }

// Stat implements Reader. It ends the stream.
func (f *HostFile) Stat() (Info, error) {
	f.end()
	return seen(f.File.Stat())
}

// Refresh updates the file's attributes before the first read. Info returns them.
func (f *HostFile) Refresh() error {
	_, err := f.File.Stat()
	if err == nil {
		f.described()
	}
	return err
}

func (f *HostFile) Read(p []byte) (int, error) {
	n, err := f.next(f.off).Read(p)
	if err := f.check(f.off, n); err != nil {
		return 0, err
	}
	f.at += int64(n)
	f.off += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt. It suits callers that read everything once in order, starting
// anywhere, and reread a few pieces.
func (f *HostFile) ReadAt(p []byte, off int64) (n int, err error) {
	if f.stream != nil && f.at != off {
		n, err = f.File.ReadAt(p, off)
	} else {
		n, err = io.ReadFull(f.next(off), p)
		f.at += int64(n)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
	}
	if err := f.check(off, n); err != nil {
		return 0, err
	}
	return n, err
}

// WriteTo implements io.WriterTo. It writes to w from the offset of the next Read on.
func (f *HostFile) WriteTo(w io.Writer) (int64, error) {
	if _, err := f.File.Seek(f.off, io.SeekStart); err != nil { // Read does not move its offset
		return 0, err
	}
	n, err := f.File.WriteTo(&guarded{w, f.off, f.guard})
	f.off += n
	return n, err
}

// Guard returns a writer for the file's contents that has the same limit as Read.
func (f *HostFile) Guard(w io.WriterAt) io.WriterAt { return guardedAt{w, f.guard} }

// next returns a stream that starts at an offset.
func (f *HostFile) next(off int64) io.Reader {
	if f.stream == nil || f.at != off {
		f.end()
		if f.Ahead != nil {
			f.stream = f.Ahead(off)
		}
		if f.stream == nil {
			f.stream = f.File.ReadRange(off, -1)
		}
		f.at = off
	}
	return f.stream
}

// end closes the stream.
func (f *HostFile) end() {
	if f.stream != nil {
		f.stream.Close()
		f.stream = nil
	}
}

// Seek implements io.Seeker. It cannot seek from the end.
func (f *HostFile) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += f.off
	case io.SeekEnd:
		return f.off, errors.ErrUnsupported
	}
	f.off = off
	if f.at != off { // otherwise the stream is already at the right place
		f.end()
	}
	return f.File.Seek(off, io.SeekStart)
}

// Again implements Reader. It opens the file once more, unless the host allows one handle only.
func (f *HostFile) Again(ctx context.Context) (ReadAtCloser, error) {
	if private.OfClient(f.File.Client()).OneHandle() {
		return lent{f.File}, nil
	}
	return f.on.Open(ctx, f.File.Name(), f.how)
}

// Close implements io.Closer. It does not wait for the answer.
func (f *HostFile) Close() error {
	f.end()
	return f.File.Close()
}

// A guard is the offset beyond which a file is not read.
//
// A server that sends more of a file than it announced could fill the disk with a file that looked
// small. A file that has grown makes no valid copy anyway, so data far beyond its size is refused.
// Files without a size, as in /proc, may have any length.
type guard int64

// mostGrown is how far a file is read beyond its size. A file that has grown a little is read to
// its end, so that the error can name its new size.
const mostGrown = 1 << 20

func guardOf(size int64) guard {
	if size <= 0 || size > math.MaxInt64-mostGrown {
		return math.MaxInt64
	}
	return guard(size + mostGrown)
}

// check fails if n bytes at an offset go beyond the guard.
func (g guard) check(off int64, n int) error {
	if off > int64(g)-int64(n) {
		return Explain(fmt.Sprintf("there is more than the %d bytes that it had", g-mostGrown),
			ErrGrown)
	}
	return nil
}

type guarded struct {
	io.Writer
	at int64
	guard
}

func (w *guarded) Write(p []byte) (int, error) {
	if err := w.check(w.at, len(p)); err != nil {
		return 0, err
	}
	n, err := w.Writer.Write(p)
	w.at += int64(n)
	return n, err
}

type guardedAt struct {
	io.WriterAt
	guard
}

func (w guardedAt) WriteAt(p []byte, off int64) (int, error) {
	if err := w.check(off, len(p)); err != nil {
		return 0, err
	}
	return w.WriterAt.WriteAt(p, off)
}

// HostFiles are the files of a host's directory, over one connection.
type HostFiles struct {
	Client *usftp.Client // below a tree's target a view, see [HostRoot.View]
	Name   string        // of the host
	Quirks *quirks.Quirks
}

func (*HostFiles) Close() {}

func (d *HostFiles) Lstat(name string) (fs.FileInfo, error) {
	return private.OfClient(d.Client).Look(name)
}

func (d *HostFiles) Open(name string, flag int, perm fs.FileMode) (Writer, error) {
	f, err := d.Client.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &HostWriter{File: f, Quirks: d.Quirks}, nil
}

// Inherit implements Files: the setuid and setgid bits are kept where owner and group are.
func (*HostFiles) Inherit(w Writer, _ string, old fs.FileInfo,
	_ bool) (mode fs.FileMode, lost []string) {
	mode = old.Mode()
	if mode&RunsAs == 0 {
		return mode, nil
	}
	was, _ := old.Sys().(*usftp.FileStat)
	fresh := new(usftp.FileStat)
	if info, err := w.(*HostWriter).File.Stat(); err == nil {
		fresh = info.Sys().(*usftp.FileStat)
	}
	known := was != nil && was.HasOwner() && fresh.HasOwner()
	kept := mode
	if !known || was.UID != fresh.UID {
		kept &^= fs.ModeSetuid
	}
	if !known || was.GID != fresh.GID {
		kept &^= fs.ModeSetgid
	}
	if kept != mode {
		lost = []string{"the new file does not keep the old one's setuid and setgid bits, " +
			"since its owner or group differs"}
	}
	return kept, lost
}

func (d *HostFiles) Remove(ctx context.Context, name string) error {
	return d.Client.WithContext(ctx).Remove(name)
}

// Explain implements Files. It distinguishes a full or read-only file system from other reasons.
func (d *HostFiles) Explain(err error, name string) error {
	switch dir := path.Dir(name); {
	case !Refused(err) && !errors.Is(err, private.ErrNotStored):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return ExplainMissing(err, d.Client, dir)
	case errors.Is(err, usftp.ErrSSHFxFailure), errors.Is(err, private.ErrNotStored):
		return explainFailure(err, d.Client, d.Name, dir)
	}
	return err
}

// A HostWriter is a file on a host that is open for writing.
type HostWriter struct {
	*usftp.File
	Quirks *quirks.Quirks // of the host

	// Striper wrote the file over several handles; nil if there was one only. Finish ends it, or else
	// Stop.
	Striper *Striper
}

func (w *HostWriter) Finish(ctx context.Context, f *Finish) (done Finished, err error) {
	if f.Truncate && private.OfClient(w.Client()).EmptiesToCut() {
		w.Quirks.WholeFiles.Store(true)
		return done, ErrNotTruncated
	}
	var steps []step
	prove := private.OfFile(w.File).StartStored(f.Size)
	if w.Striper != nil {
		w.Striper.wrote(f.Size)
		// first, since each connection answers in its own order
		if err := w.Striper.Prove(); err != nil {
			return done, err
		}
		steps = append(steps, func() func() error { return w.Striper.finish(true) })
	}
	if f.Truncate {
		steps = append(steps, func() func() error {
			truncated := waits(ctx, w.Async().Truncate(f.Size))
			return func() error { return w.truncateRefused(truncated()) }
		}, func() func() error { // some servers report success and do nothing
			looked := w.Async().Stat()
			return func() error {
				stat, err := looked.WaitContext(ctx)
				if err == nil && stat.HasSize() && int64(stat.Size) > f.Size {
					w.Quirks.WholeFiles.Store(true)
					return ErrNotTruncated
				}
				return nil
			}
		})
	}
	if f.Flush || f.Early {
		steps = append(steps, func() func() error {
			flushed := waits(ctx, w.Async().Sync())
			return func() error { return f.flushed(flushed()) }
		})
	}
	later := f.Set != (usftp.NewAttrs{}) && w.Quirks.NoFsetstat.Load()
	var refusal error
	if f.Set != (usftp.NewAttrs{}) && !later {
		steps = append(steps, func() func() error {
			given := waits(ctx, w.Async().SetAttrs(f.Set))
			return func() error {
				err := given()
				if later = Refused(err); later {
					refusal, err = err, nil
				}
				return err
			}
		})
	}
	atOnce := private.OfClient(w.Client()).WorksInOrder()
	if f.Shows && (f.Truncate || f.Flush || f.Early) {
		if err := runSteps(steps, atOnce); err != nil {
			return done, err
		}
		steps = nil
	}
	steps = append(steps, func() func() error { return waits(ctx, w.Async().Close()) })
	if err = runSteps(steps, atOnce); err == nil {
		err = prove()
	}
	if err == nil && later {
		return w.SetByPath(f, refusal), nil
	}
	return done, err
}

// flushed returns the error of a flush, unless nobody asked for the flush and it only says that there
// is none.
func (f *Finish) flushed(err error) error {
	if !f.Flush && cannotFlush(err) {
		return nil
	}
	return err
}

// cannotFlush reports whether an error says that a file or directory cannot be flushed.
func cannotFlush(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) ||
		errors.Is(err, usftp.ErrSSHFxBadMessage) // OpenSSH's word for EINVAL
}

func (w *HostWriter) truncateRefused(err error) error {
	if !Refused(err) {
		return err
	}
	w.Quirks.WholeFiles.Store(true)
	return fmt.Errorf("%w: %w", ErrNotTruncated, err)
}

// SetByPath sets the attributes of a closed file by its path, after FSETSTAT was refused or where
// it is known to be. Servers without FSETSTAT (Twisted's) have SETSTAT.
func (w *HostWriter) SetByPath(f *Finish, refusal error) (done Finished) {
	if errors.Is(refusal, errors.ErrUnsupported) {
		w.Quirks.NoFsetstat.Store(true)
	}
	client, name := w.Client(), w.Name()
	done.Unset, done.NotSet = SetEach(w.Quirks, f.Set, 0, f.Own, func(part usftp.NewAttrs) error {
		return SetUnfollowed(client, name, part, 0, f.Own)
	})
	return done
}

// Keep implements Writer. If the connection is lost, the run that continues the file has to cut it.
func (w *HostWriter) Keep(ctx context.Context, n int64) (ok, flushed bool) {
	file := w.WithContext(ctx)
	err := file.Truncate(n)
	if errors.Is(err, usftp.ErrSharedHandle) || errors.Is(err, usftp.ErrOneHandle) {
		return false, false // the data may be another file's
	}
	flushed = err == nil && file.Sync() == nil
	w.Abandon(ctx)
	return true, flushed
}

func (w *HostWriter) Abandon(ctx context.Context) { w.Async().Abandon().WaitContext(ctx) }

func (w *HostWriter) Release() {
	if w.Striper != nil {
		w.Striper.Stop()
	}
}

// A step sends a request to the host and returns a function that waits for the answer.
type step = func() (wait func() error)

// waits returns the waiting half of a step.
func waits[T any](ctx context.Context, asked *usftp.Pending[T]) func() error {
	return func() error {
		_, err := asked.WaitContext(ctx)
		return err
	}
}

// runSteps runs the steps one after the other until one fails, or all at once. It returns the first
// error.
func runSteps(steps []step, atOnce bool) (first error) {
	var waiting []func() error
	for _, ask := range steps {
		wait := ask()
		if atOnce {
			waiting = append(waiting, wait)
		} else if err := wait(); err != nil {
			return err
		}
	}
	for _, wait := range waiting {
		first = cmp.Or(first, wait())
	}
	return first
}
