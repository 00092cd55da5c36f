package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// OnHost opens files on a host over the connection that the pool.Host has.
type OnHost struct{ Host *pool.Host }

// Open implements Opener.
func (h OnHost) Open(ctx context.Context, name string, how Opening) (Reader, error) {
	f, trip, err := pools.OfHost(h.Host).OpenRead(ctx, name)
	if err != nil {
		return nil, err
	}
	r := &HostFile{File: f, Trip: trip, how: how, on: h}
	r.described()
	return r, nil
}

// ReadWhole implements Opener. It takes a round trip for OPEN, and one more on hosts that work in
// order, two on others.
func (h OnHost) ReadWhole(_ context.Context, name string, _ Opening, info *Info,
	to Memory) error {
	f := usftp.NewFile(h.Host.Client, name)
	if err := f.OpenRead(); err != nil {
		return err
	}
	to.Opened()
	size := int(info.Size)
	now, err := private.OfFile(f).ReadClose(size, func() []byte { return to.Lend(size) })
	if errors.Is(err, private.ErrOtherSize) ||
		err == nil && now != nil && now.HasMode() && !now.FileMode().IsRegular() {
		return ErrNotListed
	}
	if err == nil {
		info.SetStat(now)
	}
	return err
}

// A HostFile is an open file on a host. Data read in order, by Read or ReadAt, comes from a stream
// that runs ahead of its reader; other ReadAts make their own requests.
type HostFile struct {
	File *usftp.File
	Trip time.Duration // the round trip of its OPEN

	// Ahead returns another stream from an offset on than the file's own handle has, or nil. Its
	// Close is called when the stream is no longer needed.
	Ahead func(off int64) io.ReadCloser

	on   OnHost
	how  Opening
	info Info
	guard

	off    int64 // of the next Read
	stream io.ReadCloser
	at     int64 // of the stream
}

// described takes over what the host last said about the file.
func (f *HostFile) described() {
	f.info.SetStat(nil)
	if f.File.AttrsCached() {
		f.info.SetStat(f.File.FileStat())
	}
	f.guard = guardOf(0)
	if f.how&Growing == 0 {
		f.guard = guardOf(f.info.Size)
	}
}

// Info implements Reader.
func (f *HostFile) Info() *Info { return &f.info }

// Stat implements Reader. It ends the stream.
func (f *HostFile) Stat() (Info, error) {
	f.end()
	return seen(f.File.Stat())
}

// Refresh asks what the file is before anything was read. Info returns the answer.
func (f *HostFile) Refresh() error {
	_, err := f.File.Stat()
	if err == nil {
		f.described()
	}
	return err
}

// Read implements io.Reader.
func (f *HostFile) Read(p []byte) (int, error) {
	n, err := f.next(f.off).Read(p)
	if err := f.check(f.off, n); err != nil {
		return 0, err
	}
	f.at += int64(n)
	f.off += int64(n)
	return n, err
}

// ReadAt is for callers who read everything once in order, starting anywhere, and reread a few
// pieces.
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

// WriteTo implements io.WriterTo: w is given what arrives, from where the next Read would begin.
func (f *HostFile) WriteTo(w io.Writer) (int64, error) {
	n, err := f.File.WriteTo(&guarded{w, f.off, f.guard})
	f.off += n
	return n, err
}

// Guard returns a writer of the file's contents that refuses what Read would.
func (f *HostFile) Guard(w io.WriterAt) io.WriterAt { return guardedAt{w, f.guard} }

// next returns a stream that continues at an offset.
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

// Again implements Reader. It opens the file once more, unless the host has one handle only.
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

// A server that sends more of a file than it announced could fill the disk with a file that looked
// small. A file that has grown makes no valid copy anyway, so what goes far beyond its size is
// refused. Files without a size, as in /proc, may have any length.
//
// A guard is the offset beyond which a file is not read.
type guard int64

// mostGrown is how far a file is read beyond its size. A file that has grown a little is read to
// its end, so that the error can say to what size.
const mostGrown = 1 << 20

func guardOf(size int64) guard {
	if size <= 0 || size > math.MaxInt64-mostGrown {
		return math.MaxInt64
	}
	return guard(size + mostGrown)
}

// check fails if n bytes at an offset go beyond it.
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
