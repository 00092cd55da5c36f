package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/usftp/usftp/pool"
)

// ErrStream reports that a stream has no files.
var ErrStream = fmt.Errorf("%w: a stream is not a directory", errors.ErrUnsupported)

// Stream is the Place of a stream. It has no names.
type Stream struct{ Reader io.Reader } // nil if nothing can be read from it

func (Stream) Join(_, name string) string                  { return name }
func (Stream) Base(string) string                          { return "" }
func (Stream) Identity(string) (host, name string, _ bool) { return "", "", false }
func (Stream) Stat(string) (Info, error)                   { return Info{}, ErrStream }
func (Stream) Lstat(string) (Info, error)                  { return Info{}, ErrStream }
func (Stream) RealPath(string) (string, error)             { return "", ErrStream }
func (Stream) ReadLink(string) (string, error)             { return "", ErrStream }
func (Stream) Mark(string) (string, error)                 { return "", ErrStream }
func (Stream) Volume(string) [2]uint64                     { return [2]uint64{} }
func (Stream) WriteSmall(string, []byte, func()) error     { return ErrStream }
func (Stream) Remove(string, bool) error                   { return ErrStream }

func (Stream) List(string, *Info, func(), func(string, Info, error) bool) error { return ErrStream }

func (Stream) ReadSmall(string, int64) ([]byte, Info, error) { return nil, Info{}, ErrStream }
func (Stream) Below(string) (Root, error)                    { return nil, ErrStream }
func (Stream) Conn() *pool.Conn                              { return nil }
func (s Stream) Opener(*pool.Host) Opener                    { return s }

func (Stream) Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return Local{}.Cleanup(ctx)
}

// Open implements Opener. A stream with a method Len() int, as a *bytes.Reader has, has a size.
func (s Stream) Open(context.Context, string, Opening) (Reader, error) {
	if s.Reader == nil {
		return nil, ErrStream
	}
	f := &streamFile{s.Reader, Info{Size: -1, stream: true}}
	if sized, ok := s.Reader.(interface{ Len() int }); ok && sized.Len() > 0 {
		f.info.Size = int64(sized.Len())
	}
	return f, nil
}

// ReadWhole implements Opener.
func (Stream) ReadWhole(context.Context, string, Opening, *Info, Memory) error { return ErrStream }

// A streamFile is a stream as a Reader. It is read once, and in order.
type streamFile struct {
	io.Reader
	info Info
}

func (f *streamFile) Info() *Info         { return &f.info }
func (f *streamFile) Stat() (Info, error) { return f.info, nil }
func (f *streamFile) Close() error        { return nil } // the caller closes it

func (*streamFile) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func (*streamFile) Again(context.Context) (ReadAtCloser, error) { return nil, errors.ErrUnsupported }

// Seek implements io.Seeker for streams that can.
func (f *streamFile) Seek(off int64, whence int) (int64, error) {
	if seeker, ok := f.Reader.(io.Seeker); ok {
		return seeker.Seek(off, whence)
	}
	return 0, errors.ErrUnsupported
}
