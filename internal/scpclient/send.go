package scpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/scp"
)

// Receive takes the files asked for from an scp -f. If the error is not ErrFailed the session was
// broken off; each file that has its name then is complete.
func Receive(ctx context.Context, stream io.ReadWriter, w Want, o Options, l Listener) error {
	s := newSession(ctx, stream, o, l)
	if w.Placed == nil {
		w.Placed = make(placing)
	}
	p := &place{root: w.Root, dir: w.Dir, source: w.Source, want: &w}
	err := s.receive(p)
	if err == nil && p.came == 0 && !s.failed {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	return s.end()
}

// Send gives files of this machine to an scp -t. target is the path that Listeners see; in says
// that it is a directory. If the error is not ErrFailed the session was broken off.
func Send(ctx context.Context, stream io.ReadWriter, sources []string, target string, in bool,
	o Options, l Listener) error {
	s := newSession(ctx, stream, o, l)
	s.sending = true
	refused, err := s.answer()
	if err == nil {
		err = refused // there is nothing to continue with yet
	}
	placed := make(placing)
	for _, source := range sources {
		if err != nil {
			return err
		}
		to, name := target, filepath.Base(source)
		if in {
			to = strings.TrimSuffix(target, "/") + "/" + name
		}
		err = s.place(placed, name, source, func() error {
			return s.send(item{path: source, name: name}, to)
		})
	}
	if err == nil {
		err = s.finish(stream)
	}
	if err != nil {
		return err
	}
	return s.end()
}

// finish waits until the host's scp has ended: it sets a directory's times only after it has
// acknowledged the whole directory.
func (s *session) finish(stream io.ReadWriter) error {
	closer, ok := stream.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	closer.CloseWrite() // fails if the host has ended already, or as the read below does
	_, err := io.CopyN(io.Discard, s.in, mostLast)
	if err == io.EOF {
		err = nil
	}
	return err
}

// mostLast is more than any program prints as it ends.
const mostLast = 64 << 10

// An item is a file or a directory of this machine. Where links are not followed, a directory's
// entries are reached only through it, so that no link put in an entry's place leads outside.
type item struct {
	path, name string
	in         *os.Root // nil if links are followed
	depth      int
}

func (i item) look() (fs.FileInfo, error) {
	if i.in != nil {
		return i.in.Lstat(i.name)
	}
	return os.Stat(i.path)
}

// open opens the file that look has found, and does not wait if a named pipe has taken its place.
func (i item) open(found fs.FileInfo) (file *os.File, err error) {
	const flag = os.O_RDONLY | syscall.O_NONBLOCK
	if i.in != nil {
		file, err = i.in.OpenFile(i.name, flag, 0)
	} else {
		file, err = os.OpenFile(i.path, flag, 0)
	}
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !os.SameFile(info, found) {
		file.Close()
		return nil, cmp.Or(err, errReplaced)
	}
	return file, nil
}

// root opens a directory that look has found, to reach its entries.
func (i item) root(found fs.FileInfo) (root *os.Root, err error) {
	if i.in != nil {
		root, err = i.in.OpenRoot(i.name)
	} else {
		root, err = os.OpenRoot(i.path)
	}
	if err != nil {
		return nil, err
	}
	if info, err := root.Stat("."); err != nil || !os.SameFile(info, found) {
		root.Close()
		return nil, cmp.Or(err, errReplaced)
	}
	return root, nil
}

// send sends a file, or a directory and its contents.
func (s *session) send(i item, target string) error {
	if err := s.count(); err != nil {
		return err
	}
	if strings.ContainsFunc(i.name, unicode.IsControl) {
		s.fail(i.path, errors.New("the old protocol cannot carry control characters in a name"))
		return nil
	}
	info, err := i.look()
	switch {
	case err != nil:
		s.fail(i.path, err)
	case info.Mode()&fs.ModeSymlink != 0:
		s.Skipped(i.path, "a symbolic link")
	case info.IsDir() && !s.Recursive:
		s.fail(i.path, errors.New("is a directory (-r copies directories)"))
	case info.IsDir():
		return s.sendDirectory(i, target, info)
	case !info.Mode().IsRegular():
		s.fail(i.path, errNotRegular)
	default:
		return s.sendFile(i, target, info)
	}
	return nil
}

// announce sends the lines before a file or a directory. refused says why the host refuses it.
func (s *session) announce(head scp.Header, info fs.FileInfo) (refused, err error) {
	head.Mode = uint32(info.Mode().Perm())
	if localfs.OnlyReadOnly { // and lets nobody else write
		head.Mode &^= 0o022
	}
	if s.Times {
		// a host's own access times mean little, and not every system reports them
		at := info.ModTime().Unix()
		refused, err = s.ask(scp.Times{Mtime: at, Atime: at}.String())
		if refused != nil || err != nil {
			return refused, err
		}
	}
	return s.ask(head.String())
}

func (s *session) sendDirectory(i item, target string, info fs.FileInfo) error {
	if i.depth == s.MaxDepth { // links may form a cycle
		s.fail(i.path, fmt.Errorf("directories are more than %d levels deep", s.MaxDepth))
		return nil
	}
	dir, err := i.open(info)
	if err != nil {
		s.fail(i.path, err)
		return nil
	}
	defer dir.Close()
	below := item{depth: i.depth + 1}
	if s.SkipLinks {
		if below.in, err = i.root(info); err != nil {
			s.fail(i.path, err)
			return nil
		}
		defer below.in.Close()
	}
	refused, err := s.announce(scp.Header{Directory: true, Name: i.name}, info)
	if refused != nil {
		s.fail(i.path, refused)
	}
	if refused != nil || err != nil {
		return err
	}
	s.placed = true
	s.Made(target)
	for {
		names, err := dir.Readdirnames(100)
		for _, name := range names {
			below.path, below.name = filepath.Join(i.path, name), name
			if err := s.send(below, target+"/"+name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			s.fail(i.path, err)
			break
		}
	}
	if refused, err = s.ask("E\n"); refused != nil {
		s.fail(i.path, refused)
	}
	return err
}

var (
	errChanged  = errors.New("changed while it was copied")
	errReplaced = errors.New("something else has just taken its place")
)

func (s *session) sendFile(i item, target string, found fs.FileInfo) error {
	file, err := i.open(found)
	if err != nil {
		s.fail(i.path, err)
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		s.fail(i.path, err)
		return nil
	}
	refused, err := s.announce(scp.Header{Size: info.Size(), Name: i.name}, info)
	if refused != nil {
		s.fail(i.path, refused)
	}
	if refused != nil || err != nil {
		return err
	}
	s.placed = true // the host has opened the file
	s.Began(i.path, target, info.Size())
	unread, err := s.pour(file, info.Size())
	if err != nil {
		return err
	}
	if now, err := file.Stat(); unread == nil && err == nil &&
		(now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())) {
		unread = errChanged
	}
	if unread == nil {
		err = s.ok()
	} else {
		err = s.refuse(unread) // the host keeps the bytes it has, but learns of the failure
	}
	if err == nil {
		refused, err = s.answer()
	}
	if err != nil {
		return err
	}
	if unread == nil {
		unread = refused
	}
	s.failed = s.failed || unread != nil
	s.Ended(unread)
	return nil
}

// pour sends exactly size bytes, as announced: zeros in place of bytes it cannot read, and unread
// says why it cannot.
func (s *session) pour(file io.Reader, size int64) (unread, err error) {
	for left := size; left > 0; {
		piece := s.buffer[:min(left, int64(len(s.buffer)))]
		n := 0
		if unread == nil {
			n, unread = io.ReadFull(file, piece)
			if unread == io.EOF || unread == io.ErrUnexpectedEOF {
				unread = errChanged
			}
		}
		clear(piece[n:])
		if err := s.write(piece); err != nil {
			return unread, err
		}
		if err := s.Moved(n); err != nil {
			return unread, err
		}
		left -= int64(len(piece))
	}
	return unread, nil
}
