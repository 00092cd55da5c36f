package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// A relay is an upload whose source lies on another host: what arrives from there goes on at once,
// and nothing of it is stored here. All else (the temporary name, the rename, resuming, verifying)
// is the upload's own.

// CopyFile copies a file from one host to another; see [Job].
func CopyFile(ctx context.Context, from Host, source string, to Host, target string,
	options Options) (Result, error) {
	j := Job{From: from, Host: to, Direction: Relay, Source: source, Target: target,
		Options: options}
	return j.Run(ctx)
}

// CopyDir copies a directory from one host to another; see [Tree].
func CopyDir(ctx context.Context, from Host, source string, to Host, target string,
	options Options) (Summary, error) {
	t := Tree{From: from, Host: to, Direction: Relay, Source: source, Target: target,
		Options: options}
	return t.Run(ctx)
}

// lifelines returns the connections of a run: to the host, and to the source of a relay, else nil.
// Where both are one host they are one.
func lifelines(ctx context.Context, d Direction, from, host Host,
	options *Options) (line, source *lifeline) {
	line = newLifeline(ctx, host, options)
	switch {
	case d != Relay:
		return line, nil
	case from.Client == host.Client:
		return line, line
	}
	return line, newLifeline(ctx, from, options)
}

// renew makes connections anew that were lost. It returns false where none was, or one cannot be.
func (r *run) renew(err error, tell func(Event)) bool {
	if r.from != nil && r.from != r.line && lost(r.From.Client) {
		return r.from.renew(r.From.Client, err, tell) &&
			(!lost(r.Host.Client) || r.line.renew(r.Host.Client, err, tell))
	}
	return r.line.renew(r.Host.Client, err, tell)
}

// follow counts what arrives, for each connection that brings it; see [lifeline.follow].
func (r *run) follow(progress func() int64) (stop func()) {
	here := r.line.follow(&r.way, progress)
	if r.from == nil || r.from == r.line {
		return here
	}
	there := r.from.follow(&r.fromWay, progress)
	return func() { there(); here() }
}

// why returns what is to be told of an error: where a connection was given up, that.
func why(line, from *lifeline, err error) error {
	if from != nil && from != line {
		if gaveUp := from.why(err); gaveUp != err {
			return ofSource(gaveUp)
		}
	}
	return line.why(err)
}

// copiesThere tells whether both ends are reached over one connection, and the host copies its
// files itself.
func (r *run) copiesThere() bool {
	if r.from != r.line || r.hashes() { // what is to be hashed must pass
		return false
	}
	_, offered := r.Host.Client.HasExtension("copy-data")
	return offered
}

// sourceError is an error of the host that a relay reads from.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// ofSource marks an error as the source's.
func ofSource(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &sourceError{err}
}

// isOfSource tells whether an error is one of the host that a relay reads from.
func isOfSource(err error) bool {
	var source *sourceError
	return errors.As(err, &source)
}

// openRelay opens the source of a relay.
func (r *run) openRelay() (*source, error) {
	if r.item != nil && r.isSmall(r.item.facts.size) {
		if r.item.facts.info.Mode().IsRegular() {
			r.size = r.item.facts.size
		}
		// it is opened when there is somewhere to put it
		return &source{before: r.item.facts.info}, nil
	}
	from := new(source)
	if err := from.openRemote(r); err != nil {
		return nil, err
	}
	if from.before != nil && from.before.Mode().IsRegular() {
		r.size = from.before.Size()
	}
	return from, nil
}

// openRemote opens the file on the host that a relay reads from.
func (s *source) openRemote(r *run) error {
	began := time.Now()
	f, err := r.From.Client.OpenRead(r.Source)
	if err != nil {
		return ofSource(err)
	}
	trip := time.Since(began)
	file := &remoteFile{file: f, bound: grownBound(0)}
	// the server tells nothing of its files: there is nothing to compare with, or to go on from
	if !f.AttrsCached() {
		s.Reader, s.free = file, func() { file.Close() }
		return nil
	}
	if f.IsDir() {
		file.Close()
		return ofSource(&fs.PathError{Op: "read", Path: r.Source, Err: ErrIsDirectory})
	}
	file.bound = grownBound(f.Info().Size())
	r.doubts(r.From.Client, f.FileStat())
	r.rememberDoubt()
	file.doubt = r.doubt
	s.Reader, s.file, s.before, s.free = file, file, f.Info(), func() {}
	file.lanes = func(off int64) *striper { return r.stripeSource(f, s.before, off, trip) }
	return nil
}

// openNow opens the source that has turned out not to be small, or not to be what it was.
func (s *source) openNow(r *run) error {
	if r.Direction == Relay {
		return s.openRemote(r)
	}
	return s.open(r.ctx, r.Source)
}

// hasMode tells whether the mode of a source is known: a server need not tell it.
func hasMode(info fs.FileInfo) bool {
	if info == nil {
		return false
	}
	stat, remote := info.Sys().(*usftp.FileStat)
	return !remote || stat.HasMode()
}

// timesOf returns when a source was last read and written, as far as its copy is to have it; zero
// times where a server does not tell.
func timesOf(info fs.FileInfo) (atime, mtime time.Time) {
	if stat, remote := info.Sys().(*usftp.FileStat); remote {
		return stat.AccessTime(), stat.ModTime()
	}
	return info.ModTime(), info.ModTime()
}

// againThere is again for the source of a relay, which is opened for it once more.
func (s *source) againThere(r *run) reopen {
	if s.before == nil || !s.before.Mode().IsRegular() || private.OfClient(r.From.Client).ReadsOnce() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		again := new(source)
		if err := again.openRemote(r); err != nil {
			return nil, nil, err
		}
		again.file.(*remoteFile).doubt = nil // what is read now is not what is copied
		return again.file, again.close, nil
	}
}

// readRemote reads a small file whole. It returns false where it is not what it was when it was
// listed.
func (s *source) readRemote(r *run, data []byte) (same bool, err error) {
	f := usftp.NewFile(r.From.Client, r.Source)
	if err := f.OpenRead(); err != nil {
		return false, ofSource(err)
	}
	now, err := private.OfFile(f).ReadClose(len(data), func() []byte { return data })
	if errors.Is(err, private.ErrOtherSize) {
		return false, nil
	}
	if err != nil {
		return false, ofSource(err)
	}
	if now == nil || now.HasMode() && !now.FileMode().IsRegular() {
		return false, nil
	}
	s.before = f.Info()
	return true, nil
}

// sourceFile is what an upload reads: a file of this machine's, or one on another host.
type sourceFile interface {
	io.Reader
	io.ReaderAt
	io.Seeker
	io.Closer
	Stat() (fs.FileInfo, error)
}

// remoteFile is a file on a host as a source of uploads. What is read in order, by Read or by
// ReadAt, comes from a stream that is ahead of its reader; other ReadAts ask by themselves. It is
// for one goroutine.
type remoteFile struct {
	file   *usftp.File
	off    int64 // of the next Read
	stream io.ReadCloser
	at     int64 // of the stream
	// begins to open further handles for a stream, nil where one will do
	lanes func(off int64) *striper
	over  *striper // of the stream
	bound int64    // it is not read beyond
	doubt *doubt   // about it, nil where there can be none
	// what was wrong with the handles of a stream that has ended
	mixed error
}

func (f *remoteFile) Read(p []byte) (int, error) {
	n, err := f.next(f.off).Read(p)
	if grown := within(f.bound, f.off, n); grown != nil {
		return 0, ofSource(grown)
	}
	f.doubt.feed(p[:n], f.off)
	f.at += int64(n)
	f.off += int64(n)
	return n, ofSource(err)
}

// ReadAt is for who reads everything once, from some offset on, and a few pieces again.
func (f *remoteFile) ReadAt(p []byte, off int64) (n int, err error) {
	if f.stream != nil && f.at != off {
		n, err = f.file.ReadAt(p, off)
	} else {
		n, err = io.ReadFull(f.next(off), p)
		f.doubt.feed(p[:n], off)
		f.at += int64(n)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
	}
	if grown := within(f.bound, off, n); grown != nil {
		return 0, ofSource(grown)
	}
	return n, ofSource(err)
}

// next returns a stream that is at an offset.
func (f *remoteFile) next(off int64) io.Reader {
	if f.stream == nil || f.at != off {
		f.end()
		read := f.file.ReadRange
		if f.lanes != nil {
			if f.over = f.lanes(off); f.over != nil {
				read = f.over.stripes.ReadRange
			}
		}
		f.stream, f.at = read(off, -1), off
	}
	return f.stream
}

func (f *remoteFile) end() {
	if f.stream != nil {
		f.stream.Close()
		f.stream = nil
	}
	if f.over != nil {
		if err := f.over.prove(); err != nil && f.mixed == nil {
			f.mixed = err
		}
		f.over.stop()
		f.over = nil
	}
}

// Seek moves where the next Read begins. The end cannot be sought from.
func (f *remoteFile) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += f.off
	case io.SeekEnd:
		return f.off, ofSource(errors.ErrUnsupported)
	}
	f.off = off
	f.end()
	return off, nil
}

// Stat ends what is read ahead: the file is what it was only if it was so for all handles.
func (f *remoteFile) Stat() (fs.FileInfo, error) {
	if f.end(); f.mixed != nil {
		return nil, ofSource(f.mixed)
	}
	info, err := f.file.Stat()
	return info, ofSource(err)
}

func (f *remoteFile) Close() error {
	f.end()
	return f.file.Close()
}

// sendThere has the host copy the file itself. It returns false where that did not begin, for
// whatever reason: then the data takes the other way.
func (r *run) sendThere(f *usftp.File, from *source) (n int64, done bool, err error) {
	file, ok := from.file.(*remoteFile)
	if !ok || !r.copiesThere() || !from.before.Mode().IsRegular() || from.before.Size() == 0 {
		return 0, false, nil
	}
	if err := r.waitForDoubt(from); err != nil {
		return 0, true, err
	}
	at := r.result.Resumed
	n, err = file.file.CopyRange(at, max(0, from.before.Size()-at), f, at)
	return n, n > 0 || !refused(err), err
}

// notItself makes sure that a file is not written over by itself, where both ends are reached over
// one connection.
func (r *run) notItself(target *remoteTarget) error {
	if r.Direction != Relay || r.item != nil || target.before == nil || r.from != r.line {
		return nil
	}
	source, err := r.From.Client.RealPath(r.Source)
	if err != nil {
		return nil
	}
	if to, err := r.Host.Client.RealPath(target.path); err == nil && to == source {
		return errSameFile
	}
	return nil
}

// foreignName makes sure that a name by which one server calls an entry is one on another: it leads
// nowhere else there. Backslashes separate names on servers that run Windows, and are letters
// elsewhere.
func foreignName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return ErrBadName
	}
	for element := range strings.SplitSeq(name, `\`) {
		if element == ".." {
			return ErrBadName
		}
	}
	return nil
}
