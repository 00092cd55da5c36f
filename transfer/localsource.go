package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// localSource is a path on this machine as a source.
type localSource struct{ localEnd }

func (s *localSource) open(c *fileCopy) (input, error) {
	in := &localInput{path: c.source}
	if c.entry != nil && !c.entry.sought {
		in.known = c.entry.info
		in.listed = in.known.Mode.IsRegular() && c.tree.options.Links != LinksFollow
		return in, nil
	}
	return in, in.ready(c)
}

// sum hashes a file by reading it.
func (s *localSource) sum(c *fileCopy) error {
	opened, err := s.open(c)
	if err == nil {
		err = opened.ready(c)
	}
	if err != nil {
		return err
	}
	defer opened.close()
	f := opened.info()
	if !f.Mode.IsRegular() {
		return errChanging
	}
	c.size = f.Size
	err = c.hashing.reread(c, c.size, opened.reopen(c))
	if errors.Is(err, errDiffers) || errors.Is(err, io.ErrUnexpectedEOF) ||
		opened.unchanged(c, c.size, nil) != nil {
		return errChanging
	}
	c.hashing.verified, c.result.Bytes = VerifiedByReading, c.size
	return err
}

// explainLink turns a link that was not followed into a source that has changed: anyone who may
// write to the tree can replace a file by a link since it was listed, to a file that only we may
// read.
func explainLink(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Err == localfs.ErrLink {
		path.Err = changedf("%v", localfs.ErrLink)
	}
	return err
}

// hostless has the methods of an input that need a host, for inputs without one. What no host can
// hash for a comparison is copied again.
type hostless struct{}

func (hostless) copyOn(*fileCopy, *usftp.File) (int64, bool, error) { return 0, false, nil }
func (hostless) holds(*fileCopy) (same, known bool)                 { return false, true }
func (hostless) begins(io.ReaderAt, int64) (same, known bool)       { return false, false }
func (hostless) inherit(*fileCopy, *mark)                           {}

// localInput is a file on this machine being read.
type localInput struct {
	hostless
	path   string
	known  endpoint.Info
	listed bool // as a regular file, in a tree whose links are not followed
	file   *os.File
	free   func() // makes reads of file interruptible no longer
}

func (in *localInput) info() *endpoint.Info { return &in.known }

func (in *localInput) ready(c *fileCopy) error {
	if in.file != nil {
		return nil
	}
	var f *os.File
	var err error
	switch {
	case in.listed:
		f, err = localfs.OpenNoFollow(in.path)
		err = explainLink(err)
	case in.known.IsRegular(): // opening does not block, and there may be thousands
		f, err = os.Open(in.path)
	default:
		f, err = localfs.OpenWaiting(c.ctx, func() (*os.File, error) { return os.Open(in.path) })
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "read", Path: in.path, Err: ErrIsDirectory}
	case in.listed && !info.Mode().IsRegular():
		err = &fs.PathError{Op: "read", Path: in.path,
			Err: changedf("it is %s now", kindOf(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return err
	}
	in.file, in.free = f, func() {}
	in.known.SetInfo(info)
	if c.options.Journal != "" {
		in.known.ID = localfs.ID(info)
	}
	if !info.Mode().IsRegular() {
		in.free = localfs.Interruptible(c.ctx, f)
	}
	return nil
}

func (in *localInput) whole(c *fileCopy, data []byte) (same bool, err error) {
	if err := in.ready(c); err != nil {
		return false, err
	}
	size := len(data) - 1
	if in.known.Size == int64(size) {
		n, err := io.ReadFull(in.file, data)
		if err != io.EOF && err != io.ErrUnexpectedEOF && err != nil {
			return false, err
		}
		same = n == size // false for files like those in /proc, whose size says nothing
	}
	if same {
		err = in.unchanged(c, int64(size), nil)
	}
	in.close()
	return same, err
}

func (in *localInput) contents() contents { return in.file }

func (in *localInput) unchanged(c *fileCopy, n int64, _ reopen) error {
	if in.file == nil || !in.known.Mode.IsRegular() {
		return nil
	}
	info, err := in.file.Stat()
	if err != nil {
		return err
	}
	now := endpoint.OfFile(info)
	return unchanged(&in.known, &now, n)
}

// pour lets the file systems copy between two regular files, and streams anything else.
func (in *localInput) pour(c *fileCopy, to sink) (int64, error) {
	if !in.known.Mode.IsRegular() || to.file == nil {
		return pourStream(c, in.file, to)
	}
	var moved atomic.Int64
	if !c.isSmall() {
		defer c.watch(moved.Load)()
	}
	o := localfs.Options{Zeros: c.options.Sparse, Each: func(n int64) error {
		moved.Add(n)
		return c.limiter.wait(int(n))
	}}
	if c.limiter != nil {
		o.Piece = c.limiter.piece
	}
	if c.hashing.digests = newDigests(c, c.size); len(c.hashing.digests) > 0 {
		o.Hash = c.hashing.digests
	}
	n, err := localfs.Copy(c.ctx, to.file, in.file, o)
	c.hashing.digests.Finish()
	return n, err
}

// pourStream copies if either side is not a regular file.
func pourStream(c *fileCopy, r io.Reader, to sink) (int64, error) {
	if c.options.Verify && c.main() == nil {
		return 0, errNoReread
	}
	var moved atomic.Int64
	defer c.watch(moved.Load)()
	c.hashing.start(c, nil)
	return io.Copy(counting{c.hashing.pipe.Writer(c.limiter.writer(to.Writer), 0), &moved},
		interruptibleReader{c.ctx, r})
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

// interruption returns why a context ended, in words that no reader takes for the end of its file:
// the cause may be that another file ended.
func interruption(ctx context.Context) error {
	if err := context.Cause(ctx); err != io.EOF {
		return err
	}
	return io.ErrUnexpectedEOF
}

// counting counts what a writer has taken.
type counting struct {
	w     io.Writer
	taken *atomic.Int64
}

func (w counting) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.taken.Add(int64(n))
	return n, err
}

func (in *localInput) verify(c *fileCopy, target reopen) error {
	if target == nil || !in.known.Mode.IsRegular() {
		return errNoReread
	}
	stored, free, err := target()
	if err != nil {
		return err
	}
	defer free()
	same, err := c.matches(io.NewSectionReader(stored, 0, math.MaxInt64), in.file, c.result.Bytes)
	if err == nil && !same {
		err = ErrVerify
	}
	if err == nil {
		c.hashing.verified = VerifiedByReading
	}
	return err
}

// reopen returns the open file if there is one, even if its name has since gone to another file.
func (in *localInput) reopen(*fileCopy) reopen {
	if !in.known.Mode.IsRegular() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		if in.file != nil {
			return in.file, func() {}, nil
		}
		return opened(os.Open(in.path))
	}
}

func (in *localInput) close() {
	if in.file != nil {
		in.free()
		in.file.Close()
		in.file = nil
	}
}

func opened(f *os.File, err error) (io.ReaderAt, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}
