package filecopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/hashpipe"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// An input is the source file of one attempt. For a target on this machine, pour reads it. A target
// on a host reads all of it once in order, and some pieces again.
type input struct {
	copy   *Copy
	opener endpoint.Opener
	how    endpoint.Opening
	known  endpoint.Info // as listed, until it is opened or read

	file   endpoint.Reader    // nil until it is open
	host   *endpoint.HostFile // the same file if it is on a host
	shared SharedReader       // the same file if other copies read it too
	off    int64              // of the next Read
	sends  bool               // the data read is copied, not just compared

	small small // the same file if it was read as a whole
	same  sameness
}

// A SharedReader is an open file that other copies read, too.
type SharedReader interface {
	endpoint.Reader
	Own() endpoint.Reader // the file itself
	Oldest() time.Time    // when the first part of it was asked for, by any copy
}

// reopen opens a file for reading anywhere in it.
type reopen func() (endpoint.ReadAtCloser, error)

// openInput returns the file to read, which must be closed even after an error. A file of a tree
// stays closed until ready, and so does one that only lacks its name: it may be gone by now.
func openInput(c *Copy) (*input, error) {
	in := &input{copy: c, opener: c.Src.Opener(c.from.pool()), how: c.How,
		known: endpoint.Info{Size: -1}}
	in.same.in = in
	switch p := c.known.committing; {
	case c.Listed != nil:
	case p != nil:
		in.known = *p.source
		in.sized()
		return in, nil
	default:
		return in, in.ready()
	}
	in.known = *c.Listed
	in.sized()
	in.small.budget, in.small.size = c.Budget, in.known.Size
	if c.from != nil {
		in.small.counts, in.small.keeps = &c.slot, c.to != nil // which has a file open, too
	}
	return in, nil
}

func (in *input) info() *endpoint.Info { return &in.known }

// ready opens the file if it is not open yet, or reads it if it is a small file on a host. It
// completes all round trips for that, so that the target holds nothing open meanwhile.
func (in *input) ready() error {
	c := in.copy
	if in.file != nil || in.small.data != nil {
		return nil
	}
	if c.from != nil && c.IsSmall() {
		in.small.takes = true
		same, err := in.load()
		if same {
			c.slot.free()
		}
		if same || err != nil {
			return err
		}
		c.known.large = true
		in.small.Opening()
	}
	err := in.open()
	in.sized()
	return endpoint.OfSource(err)
}

// sized records the source's size, if it is known.
func (in *input) sized() {
	if in.known.IsRegular() {
		in.copy.Size = in.known.Size
	}
}

func (in *input) open() (err error) {
	c := in.copy
	if in.file, err = openListed(in); err != nil {
		return Changed(err)
	}
	in.known = *in.file.Info()
	in.shared, _ = in.file.(SharedReader)
	in.host, _ = in.own().(*endpoint.HostFile)
	mode := in.known.Mode
	switch {
	case mode.IsDir():
		return &fs.PathError{Op: "read", Path: c.Source, Err: endpoint.ErrIsDirectory}
	case in.host != nil:
		return in.openedOnHost()
	case !in.known.HasMode: // a stream: it cannot be read again
		c.known.spent = true
		c.Size = in.known.Size
	case in.how&endpoint.Regular != 0 && !mode.IsRegular():
		return &fs.PathError{Op: "read", Path: c.Source,
			Err: unread{changedf("it is %s now", endpoint.KindOf(mode))}}
	case !mode.IsRegular() && mode.Type() != fs.ModeDevice: // nor can a pipe or a terminal
		c.known.spent = true
	case c.Options.Journal != "":
		in.known.ID = localfs.ID(in.known.Local)
	}
	return nil
}

// openListed opens the file. If another one than was listed on this machine has its path now, a link
// may have taken the place of a directory on the way: the file is then sought from the top of the
// tree, through no link. Opening all files like that would take longer.
func openListed(in *input) (endpoint.Reader, error) {
	c := in.copy
	file, err := in.opener.Open(c.Ctx, c.Source, in.how)
	if err != nil || in.how&endpoint.NoFollow == 0 || c.Listed == nil || c.Listed.Local == nil {
		return file, err
	}
	if is := file.Info(); !is.IsRegular() || os.SameFile(is.Local, c.Listed.Local) {
		return file, nil
	}
	file.Close()
	if file, err = c.Beneath(c.Rel); err != nil {
		return nil, unread{err}
	}
	return file, nil
}

// unread is the error of a file that was not read, since something else is in its place now.
type unread struct{ error }

func (e unread) Unwrap() error { return e.error }

// own returns the open file itself, not the reader shared with other copies.
func (in *input) own() endpoint.Reader {
	if in.shared != nil {
		return in.shared.Own()
	}
	return in.file
}

// openedOnHost prepares a file on a host for being read.
func (in *input) openedOnHost() error {
	c, f := in.copy, in.host.File
	c.slot.opened(true)
	c.from.trip = in.host.Trip
	if !f.AttrsCached() { // nothing to compare with, or to resume from
		return nil
	}
	if in.known.Mode&fs.ModeDevice != 0 { // which may never end: scp refuses it, too
		return &fs.PathError{Op: "read", Path: c.Source, Err: fmt.Errorf("%w but %s",
			endpoint.ErrNotRegular, endpoint.KindOf(in.known.Mode))}
	}
	if c.known.stored != nil { // nobody else writes to it
		in.widen(in.host, &in.same.mixed)
		return nil
	}
	if !c.known.racy.isAbout(f.FileStat()) {
		c.known.racy = newRacySource(c.from, f.FileStat())
		if err := in.same.settle(); err != nil {
			return err
		}
	}
	if c.to != nil { // none of it stays on this machine
		in.same.remember()
	}
	if in.shared == nil {
		in.widen(in.host, &in.same.mixed)
		return nil
	}
	in.same.racy.everywhere()
	return nil
}

// widen lets a file on a host be read ahead over several handles if that is worthwhile. mixed is
// set to the first failed proof that they read one file.
func (in *input) widen(f *endpoint.HostFile, mixed *error) {
	c := in.copy
	f.Ahead = func(off int64) io.ReadCloser {
		known := f.Info()
		if c.from == c.to || !known.IsRegular() ||
			!c.from.worthStriping(c, known.Size-off, true) {
			return nil
		}
		s := c.from.stripe(c, f.File, endpoint.Striping{From: off, Size: known.Size})
		return &wide{s.ReadRange(off, -1), s, mixed}
	}
}

// wide is a stream over several handles.
type wide struct {
	io.ReadCloser
	striper *endpoint.Striper
	mixed   *error
}

func (w *wide) Close() error {
	err := w.ReadCloser.Close()
	if proof := Changed(w.striper.Prove()); *w.mixed == nil {
		*w.mixed = proof
	}
	w.striper.Stop()
	return err
}

// load reads a small file into memory, unless the host can copy it itself. same is false if it is
// no longer as listed, or has been written to since, perhaps just now; it is then copied like a
// large file.
func (in *input) load() (same bool, err error) {
	if copies(in.copy) {
		return false, nil
	}
	c := in.copy
	opener := in.opener
	if c.from != nil && c.from.host.Helper != nil {
		opener = getter(in)
	}
	err = in.small.read(c.Ctx, opener, c.Source, in.how, &in.known)
	was, now := c.Listed, &in.known
	if same = err == nil && (c.from == nil || now.IsRegular() && (!was.HasTimes || !now.HasTimes ||
		was.Mtime.Equal(now.Mtime))); same {
		c.Size = in.small.size
		return true, nil
	}
	in.small.release()
	if err == endpoint.ErrNotListed {
		err = nil
	}
	return false, endpoint.OfSource(Changed(err))
}

// copies reports whether the host can copy the file itself.
func copies(c *Copy) bool {
	if c.from == nil || c.from != c.to || c.hashes() { // hashed data must pass through here
		return false
	}
	_, offered := c.from.client.HasExtension(wire.ExtCopyData)
	return offered
}

// copyOn makes the host copy the file itself. done is false if it could not start.
func (in *input) copyOn(to *usftp.File) (n int64, done bool, err error) {
	c := in.copy
	if !copies(c) || !in.known.IsRegular() || in.known.Size == 0 {
		return 0, false, nil
	}
	small := in.known.Size <= readAtOnce
	if racy := c.known.racy; !small && racy.isRacy(c.Ctx) {
		if err := racy.wait(c.Ctx); err != nil {
			return 0, true, err
		}
		c.known.racy, in.same.racy = nil, nil
		if err := in.unchanged(in.known.Size, nil); err != nil {
			return 0, true, err
		}
	}
	at := c.Result.Resumed
	n, err = in.host.File.CopyRange(at, max(0, in.known.Size-at), to, at)
	if small && n > 0 {
		c.known.racy, in.same.racy = nil, nil
	}
	return n, n > 0 || !endpoint.Refused(err), err
}

// unchanged fails if the file changed since it was opened, or if its size is not n. local rereads
// the copied data; it is nil if that is impossible. A file that was read as a whole has not
// changed.
func (in *input) unchanged(n int64, local reopen) error {
	if in.file == nil || !in.known.IsRegular() {
		return nil
	}
	return in.same.unchanged(n, local)
}

func (in *input) Read(p []byte) (int, error) {
	if l := in.copy.Limiter; in.sends && l != nil {
		p = p[:min(len(p), l.Piece)]
	}
	n, err := in.file.Read(p)
	waitErr := in.passed(p, n, in.off)
	in.off += int64(n)
	return n, cmp.Or(endpoint.OfSource(Changed(err)), waitErr)
}

func (in *input) ReadAt(p []byte, off int64) (int, error) {
	n, err := in.file.ReadAt(p, off)
	if err := in.passed(p, n, off); err != nil {
		return 0, err
	}
	return n, endpoint.OfSource(Changed(err))
}

// passed takes data read at an offset: it hashes the data where needed, and counts sent data
// towards the rate limit.
func (in *input) passed(p []byte, n int, off int64) error {
	if n <= 0 || n > len(p) { // then the reader is broken, which the transfer detects
		return nil
	}
	in.same.feed(p[:n], off)
	if !in.sends {
		return nil
	}
	in.copy.hashing.pipe.FeedAt(p[:n], off)
	return in.copy.Limiter.Wait(n)
}

// Seek sets the offset of the next Read, from the beginning or the current one: some servers make
// it necessary to go back.
func (in *input) Seek(off int64, whence int) (int64, error) {
	at, err := in.file.Seek(off, whence)
	if whence == io.SeekCurrent { // a stream may have begun anywhere
		off += in.off
	}
	if err == nil {
		in.off = off
	}
	return at, endpoint.OfSource(err)
}

// A sink takes the data of a target on this machine: a stream, or a regular file that can be
// written at any offset.
type sink struct {
	io.Writer
	file   *endpoint.LocalWriter // nil for a stream
	reread reopen                // opens the file for reading, nil for a stream

	// old opens the file to be replaced, nil if there is none
	old func() (*os.File, error)
}

// open returns the writers to use, for data in order and in any order.
func (s sink) open(c *Copy) (io.Writer, io.WriterAt, error) {
	if s.file == nil {
		return s.Writer, nil, nil
	}
	if !s.file.Sparse {
		return s.file.File, s.file.File, nil
	}
	if c.Size > 0 { // a hash may read from it before all has arrived
		if err := s.file.Resize(c.Size); err != nil {
			return nil, nil, err
		}
	}
	return io.NewOffsetWriter(s.file, c.Result.Resumed), s.file, nil
}

// small writes a file held in memory.
func (s sink) small(data []byte) error {
	if s.file == nil || !s.file.Sparse {
		_, err := s.Write(data)
		return err
	}
	_, err := s.file.WriteAt(data, 0)
	if last := len(data) - 1; err == nil && last >= 0 && data[last] == 0 { // it gives the file its size
		_, err = s.file.File.WriteAt(data[last:], int64(last))
	}
	return err
}

// pour copies the contents to a local file or a stream.
func pour(in *input, to sink) (int64, error) {
	local, isLocal := in.own().(*endpoint.LocalFile)
	p := pouring{in, to}
	switch {
	case in.small.data != nil:
		return p.small()
	case in.host != nil:
		return p.host()
	case isLocal && in.known.Mode.IsRegular() && to.file != nil:
		return p.local(local.File)
	}
	return p.stream()
}

// pouring copies an input to a target on this machine.
type pouring struct {
	*input
	to sink
}

// small copies a file held in memory.
func (p pouring) small() (int64, error) {
	c, data := p.copy, p.input.small.data
	n := int64(len(data))
	if c.hashes() {
		c.hashing.small(c, data)
	}
	err := p.to.small(data)
	p.input.small.release() // before verifying takes more
	if err == nil {
		err = c.Limiter.Wait(int(n))
	}
	return n, err
}

// host copies a file from a host, over several handles where that helps.
func (p pouring) host() (n int64, err error) {
	in, c, to := p.input, p.copy, p.to
	f, resumed := in.host.File, c.Result.Resumed
	if to.reread == nil {
		in.same.remember()
	}
	if to.old != nil && in.known.IsRegular() {
		if n, done, err := p.delta(); done || err != nil {
			return n, err
		}
	}
	if c.hashes() {
		c.hashing.start(c, to.reread)
	}
	var moved atomic.Int64 // under a rate limit, writing a request's data takes a while
	defer c.watch(func() int64 { return resumed + max(f.Progress(), moved.Load()) })()
	pipe := c.hashing.pipe
	w, at, err := to.open(c)
	if err != nil {
		return 0, err
	}
	if c.Limiter != nil {
		w = counting{w, &moved}
	}
	if at == nil || pipe.Ordered() || in.same.remembers() || !in.known.IsRegular() ||
		!c.from.worthStriping(c, c.Size-resumed, true) {
		n, err = c.from.judge(c, f, nil, func() (int64, error) {
			w := c.Limiter.Writer(w)
			if in.same.remembers() {
				w = hashpipe.Tee(w, in.same.feed, resumed)
			}
			return in.host.WriteTo(pipe.Writer(w, resumed))
		})
	} else {
		s := c.from.stripe(c, f, endpoint.Striping{From: resumed, Size: c.Size})
		defer s.Stop()
		safe := func() int64 { return resumed + f.Progress() }
		n, err = c.from.judge(c, f, s, func() (int64, error) {
			return s.WriteToAt(in.host.Guard(pipe.WriterAt(at, safe)))
		})
		if err == nil {
			// unchanged compares the arrived data with the contents
			if err = Changed(s.Prove()); errors.Is(err, errTouched) {
				in.same.mixed, err = err, nil
			}
		}
	}
	if err == nil && to.file != nil {
		err = to.file.Resize(resumed + n)
	}
	if err = Changed(err); endpoint.Refused(err) || c.from.lost() {
		err = endpoint.OfSource(err)
	}
	return n, err
}

// local lets the file systems copy between two regular files.
func (p pouring) local(file *os.File) (int64, error) {
	c := p.copy
	var moved atomic.Int64
	if !c.IsSmall() {
		defer c.watch(moved.Load)()
	}
	o := localfs.Options{Zeros: c.Options.Sparse, Each: func(n int64) error {
		moved.Add(n)
		return c.Limiter.Wait(int(n))
	}}
	if c.Limiter != nil {
		o.Piece = c.Limiter.Piece
	}
	if c.hashing.digests = newDigests(c, c.Size); len(c.hashing.digests) > 0 {
		o.Hash = c.hashing.digests
	}
	n, err := localfs.Copy(c.Ctx, p.to.file.File, file, o)
	c.hashing.digests.Finish()
	return n, err
}

// stream copies if either side is not a regular file.
func (p pouring) stream() (int64, error) {
	c := p.copy
	if c.Options.Verify && c.main() == nil {
		return 0, errNoReread
	}
	var moved atomic.Int64
	defer c.watch(moved.Load)()
	if c.hashes() {
		c.hashing.start(c, nil)
	}
	return io.Copy(counting{c.hashing.pipe.Writer(c.Limiter.Writer(p.to.Writer), 0), &moved},
		interruptibleReader{c.Ctx, p.file})
}

// interruptibleReader stops when a context ends. It also hides the reader's other methods from
// io.Copy.
type interruptibleReader struct {
	ctx context.Context
	r   io.Reader
}

func (r interruptibleReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, interruption(r.ctx)
	}
	return r.r.Read(p)
}

// interruption returns why a context ended, as an error that no reader takes for the end of its
// file: the cause may be another file's io.EOF.
func interruption(ctx context.Context) error {
	if err := context.Cause(ctx); err != io.EOF {
		return err
	}
	return io.ErrUnexpectedEOF
}

// counting counts the bytes that a writer has taken.
type counting struct {
	w     io.Writer
	taken *atomic.Int64
}

func (w counting) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.taken.Add(int64(n))
	return n, err
}

// reopen returns a function to read the file again, nil if that is impossible.
func (in *input) reopen() reopen {
	c := in.copy
	if !in.known.IsRegular() || c.from != nil && private.OfClient(c.from.client).ReadsOnce() {
		return nil
	}
	return func() (file endpoint.ReadAtCloser, err error) {
		if in.file != nil {
			file, err = in.file.Again(c.Ctx)
		} else {
			file, err = openListed(in)
		}
		if err != nil {
			return nil, endpoint.OfSource(Changed(err))
		}
		if f, ok := file.(*endpoint.HostFile); ok {
			in.widen(f, new(error))
		}
		return file, nil
	}
}

func (in *input) close() {
	in.small.release()
	if in.file != nil {
		in.file.Close()
	}
}

// Changed turns the error of a file that changed or was replaced into ErrSourceChanged. Anyone who
// may write to a tree can replace a listed file by a link to a file that only we may read.
func Changed(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok &&
		(path.Err == localfs.ErrLink || path.Err == endpoint.ErrReplaced) {
		path.Err = unread{changedf("%v", path.Err)}
	} else if err == endpoint.ErrTouched {
		err = errTouched
	} else if err == endpoint.ErrReplaced || errors.Is(err, endpoint.ErrGrown) {
		err = changedf("%w", err)
	}
	return err
}
