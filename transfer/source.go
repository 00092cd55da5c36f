package transfer

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// source is what an upload reads.
type source struct {
	io.Reader
	file   sourceFile  // nil where the job brought a reader
	before fs.FileInfo // of file
	free   func()      // ends what watches over file, or what Reader holds
	listed bool        // as a regular file, in a tree whose links are not followed
}

// openSource opens the local source. A directory or a file that cannot be read fails here, before
// anything is asked of the host.
func (r *run) openSource() (*source, error) {
	r.size = -1
	if r.Reader != nil {
		if r.Size > 0 {
			r.size = r.Size
		}
		return &source{Reader: r.Reader}, nil
	}
	if r.Direction == Relay {
		return r.openRelay()
	}
	from := &source{listed: r.isListed()}
	if r.item != nil && r.isSmall(r.item.facts.size) {
		from.before = r.item.facts.info // it is opened when there is somewhere to put it
	} else if err := from.open(r.ctx, r.Source); err != nil {
		return nil, err
	}
	if from.before.Mode().IsRegular() {
		r.size = from.before.Size()
	}
	return from, nil
}

// open opens the file.
func (s *source) open(ctx context.Context, name string) error {
	var f *os.File
	var err error
	if s.listed {
		f, err = openListed(name)
	} else if s.before != nil && s.before.Mode().IsRegular() { // one of thousands
		f, err = os.Open(name)
	} else {
		f, err = openWaiting(ctx, func() (*os.File, error) { return os.Open(name) })
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "read", Path: name, Err: ErrIsDirectory}
	case s.listed && !info.Mode().IsRegular():
		err = &fs.PathError{Op: "read", Path: name,
			Err: fmt.Errorf("%w: it is %s now", ErrSourceChanged, kindOf(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return err
	}
	s.Reader, s.file, s.before, s.free = f, f, info, func() {}
	if !info.Mode().IsRegular() {
		s.free = interruptible(ctx, f)
	}
	return nil
}

// isListed tells whether the source is a file of this machine's that was listed as what it is.
// Whoever may write to the tree can have put a link in its place since, to a file that only we can
// read, or a pipe for which we would wait for ever.
func (r *run) isListed() bool {
	return r.item != nil && !r.item.sought && r.item.facts.mode.IsRegular() &&
		r.item.dir.tree.TreeOptions.Links != FollowLinks
}

// again returns what has the source read anywhere, nil where it can be read but once. Where it is
// open that is the same file, whatever has its name by then.
func (s *source) again(name string) reopen {
	if s.before == nil || !s.before.Mode().IsRegular() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		if s.file != nil {
			return s.file, func() {}, nil
		}
		return opened(os.Open(name))
	}
}

func opened(f *os.File, err error) (io.ReaderAt, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

func (s *source) close() {
	if s.free != nil {
		s.free()
	}
	if s.file != nil {
		s.file.Close()
	}
}

// changed tells whether the file was written to since it was opened.
func (s *source) changed(read int64) error {
	if s.file == nil || !s.before.Mode().IsRegular() {
		return nil
	}
	after, err := s.file.Stat()
	if err != nil {
		return err
	}
	return sameSource(s.before.Size(), after.Size(), read, s.before.ModTime(), after.ModTime())
}

// sameSource compares what was known of a source before it was read with what is known afterwards,
// and with what was read of it. A file of no size may hold data all the same, as those of /proc do.
func sameSource(before, after, read int64, timeBefore, timeAfter time.Time) error {
	switch {
	case after < before:
		return fmt.Errorf("%w: it has shrunk from %d bytes to %d", ErrSourceChanged, before, after)
	case after > before:
		return fmt.Errorf("%w: it has grown from %d bytes to %d", ErrSourceChanged, before, after)
	case before > 0 && read != before:
		return fmt.Errorf("%w: it had %d bytes and %d were read", ErrSourceChanged, before, read)
	case !timeBefore.Equal(timeAfter):
		return ErrSourceChanged
	}
	return nil
}
