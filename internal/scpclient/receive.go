package scpclient

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/scp"
)

// A Want names the files asked for, and where they go.
type Want struct {
	// Pattern must match the host's names, as in path.Match; Several allows more than one. With
	// Contents a directory is wanted whose name does not matter, such as "." or a home directory:
	// its contents go into the root.
	Pattern           string
	Several, Contents bool

	// Root is the directory that gets the file, under Name if that is not "". Dir is its name in
	// errors, and Source the path on the host that was asked for.
	Root              *os.Root
	Name, Dir, Source string

	// Placed, if not nil, has the names put in the root by earlier Receives, and gets the names
	// that this one adds.
	Placed placing
}

// A place is a directory being filled.
type place struct {
	root   *os.Root
	dir    string // its name in errors
	source string // the directory on the host
	depth  int
	want   *Want // of the top, otherwise nil
	came   int   // the number of entries, at the top
}

// mostNames is the most names kept at the top, so that none comes twice.
const mostNames = 1 << 20

// receive takes the entries that an scp -f sends.
func (s *session) receive(p *place) error {
	var unheard error
	if p.depth == 0 {
		unheard = s.ok() // a host that has ended already may have said why
	}
	var times *scp.Times
	for {
		if _, err := s.in.Peek(1); err == io.EOF && p.depth == 0 {
			return unheard
		}
		line, err := s.line()
		if err != nil {
			return err
		}
		kind := byte(0)
		if line != "" {
			kind = line[0]
		}
		switch kind {
		case 'E':
			if p.depth == 0 {
				return s.giveUp(fmt.Errorf("%w: it ended a directory that had not begun",
					ErrNotSCP))
			}
			return s.ok()
		case 'T':
			parsed, err := scp.ParseTimes(line)
			if err != nil {
				return s.giveUp(fmt.Errorf("%w: %w", ErrNotSCP, err))
			}
			if times != nil { // it might never stop
				return s.giveUp(fmt.Errorf("%w: it sent times twice", ErrNotSCP))
			}
			times = &parsed
			if err := s.ok(); err != nil {
				return err
			}
		case 'C', 'D':
			head, err := scp.ParseHeader(line)
			if err == nil {
				err = s.admit(p, head)
			}
			if err != nil {
				return s.giveUp(fmt.Errorf("%w: %w", ErrNotSCP, err))
			}
			if err := s.count(); err != nil {
				return s.giveUp(err)
			}
			if err := s.receiveOne(p, head, times); err != nil {
				return err
			}
			times = nil
		case 1:
			s.fail(p.source, hostFailure(line[1:]))
			if err := s.count(); err != nil {
				return s.giveUp(err)
			}
		case 2:
			return hostFailure(line[1:])
		default:
			return s.giveUp(fmt.Errorf("%w: it sent %q (a start-up file there must print nothing)",
				ErrNotSCP, oneLine(line)))
		}
	}
}

// admit checks the entry that the host announces: its name must be a single name, and at the top
// one that was asked for. Anything else would let a host write where it likes (CVE-2019-6111).
func (s *session) admit(p *place, head scp.Header) error {
	if head.Directory && !s.Recursive {
		return errors.New("it sent a directory, which was not asked for")
	}
	if w := p.want; w != nil {
		if p.came == 1 && !w.Several || p.came == mostNames {
			return fmt.Errorf("it sent %q, which was not asked for", oneLine(head.Name))
		}
		p.came++
		if w.Contents {
			if !head.Directory {
				return fmt.Errorf("it sent the file %q instead of a directory", oneLine(head.Name))
			}
			return nil // the name is not used
		}
		hidden := strings.HasPrefix(head.Name, ".") && !strings.HasPrefix(w.Pattern, ".")
		if match, err := path.Match(w.Pattern, head.Name); err != nil || !match || hidden {
			return fmt.Errorf("it sent %q instead of what was asked for", oneLine(head.Name))
		}
	}
	if err := localfs.CheckName(head.Name); err != nil || strings.ContainsFunc(head.Name,
		unicode.IsControl) {
		return fmt.Errorf("it sent %q, which is no file's name", oneLine(head.Name))
	}
	return nil
}

func (s *session) receiveOne(p *place, head scp.Header, times *scp.Times) error {
	name, source := head.Name, path.Join(p.source, head.Name)
	if p.want != nil {
		if source = p.want.Source; p.want.Several {
			source = path.Join(path.Dir(p.want.Source), head.Name)
		}
		if p.want.Name != "" {
			name = p.want.Name
		}
		if p.want.Contents {
			return s.receiveDirectory(p, ".", source, head, times)
		}
	}
	receive := s.receiveFile
	if head.Directory {
		receive = s.receiveDirectory
	}
	if p.want == nil {
		return receive(p, name, source, head, times)
	}
	return s.place(p.want.Placed, name, source, func() error {
		return receive(p, name, source, head, times)
	})
}

// receiveDirectory takes a directory. name is "." for the root itself.
func (s *session) receiveDirectory(p *place, name, source string, head scp.Header,
	times *scp.Times) error {
	if p.depth == s.MaxDepth {
		return s.giveUp(fmt.Errorf("directories are more than %d levels deep", s.MaxDepth))
	}
	target := filepath.Join(p.dir, name)
	root, made, err := openDirectory(p.root, name, fs.FileMode(head.Mode))
	s.placed = s.placed || made || err == nil
	if err != nil {
		s.fail(source, err)
		return s.refuse(err)
	}
	defer root.Close()
	if made {
		s.Made(target)
	}
	if err := s.ok(); err != nil {
		return err
	}
	if err := s.receive(&place{root: root, dir: target, source: source,
		depth: p.depth + 1}); err != nil {
		return err
	}
	perm := fs.FileMode(head.Mode) & fs.ModePerm
	if !s.Modes && made {
		err = withdraw(root, perm)
	} else if s.Modes {
		err = root.Chmod(".", perm)
	}
	if s.Times && times != nil && err == nil {
		err = root.Chtimes(".", time.Unix(times.Atime, 0), time.Unix(times.Mtime, 0))
	}
	if err != nil {
		s.fail(source, err)
	}
	return nil
}

// withdraw removes permissions that the source does not have from a directory just made. Bits that
// the umask removed do not come back.
func withdraw(root *os.Root, perm fs.FileMode) error {
	info, err := root.Stat(".")
	if err != nil || info.Mode()&fs.ModePerm&^perm == 0 {
		return err
	}
	return root.Chmod(".", info.Mode()&^(fs.ModePerm&^perm))
}

// openDirectory makes a directory, or opens an existing one. It follows no link.
func openDirectory(in *os.Root, name string, mode fs.FileMode) (dir *os.Root, made bool,
	err error) {
	if name != "." {
		// it must be writable until it is complete
		err = in.Mkdir(name, mode&fs.ModePerm|0o700)
		if made = err == nil; !made && !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}
	}
	was, err := in.Lstat(name)
	if err == nil && !was.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: name, Err: errNotDirectory}
	}
	if err == nil {
		dir, err = in.OpenRoot(name)
	}
	if err != nil {
		return nil, made, err
	}
	if is, err := dir.Stat("."); err != nil || !os.SameFile(was, is) { // a link took its place
		dir.Close()
		return nil, made, &fs.PathError{Op: "open", Path: name, Err: errNotDirectory}
	}
	return dir, made, nil
}

var (
	errNotDirectory = errors.New("not a directory")
	errNotRegular   = errors.New("not a regular file")
)

// receiveFile takes a file. The file has a temporary name until it is complete, unless it is
// written in place.
func (s *session) receiveFile(p *place, name, source string, head scp.Header,
	times *scp.Times) error {
	file, err := create(p.root, name, fs.FileMode(head.Mode), s.Modes)
	if err != nil {
		s.fail(source, err)
		return s.refuse(err)
	}
	defer file.drop()
	s.placed = s.placed || file.temporary == ""
	s.Began(source, filepath.Join(p.dir, name), head.Size)
	wrong, err := s.fill(file, head.Size)
	if err != nil {
		return err
	}
	if wrong == nil && file.temporary == "" {
		wrong = file.Truncate(head.Size)
	}
	if wrong == nil && s.Times && times != nil {
		wrong = p.root.Chtimes(file.written(), time.Unix(times.Atime, 0), time.Unix(times.Mtime, 0))
	}
	if wrong == nil {
		wrong = file.commit()
	}
	s.placed = s.placed || wrong == nil
	s.failed = s.failed || wrong != nil
	s.Ended(wrong)
	if wrong != nil {
		return s.refuse(wrong)
	}
	return s.ok()
}

// fill reads the contents of a file. wrong says why it is incomplete; an error ends the session.
func (s *session) fill(file io.Writer, size int64) (wrong, err error) {
	if err := s.ok(); err != nil {
		return nil, err
	}
	for left := size; left > 0; {
		n, err := s.in.Read(s.buffer[:min(left, int64(len(s.buffer)))])
		if n > 0 && wrong == nil { // otherwise it reads on, to stay in step
			_, wrong = file.Write(s.buffer[:n])
			if errors.Is(wrong, syscall.ENOSPC) || errors.Is(wrong, syscall.EDQUOT) {
				return nil, wrong // nothing else would fit either
			}
		}
		left -= int64(n)
		if moveErr := s.Moved(n); moveErr != nil {
			return wrong, moveErr
		}
		if err != nil && left > 0 {
			return wrong, lost(err)
		}
	}
	unread, err := s.answer() // whether the host could read all the bytes it sent
	if wrong == nil {
		wrong = unread
	}
	return wrong, err
}

// A newFile is a file with a temporary name, or a file written in place.
type newFile struct {
	*os.File
	in              *os.Root
	name, temporary string       // temporary is "" in place
	mode            *fs.FileMode // to be set at the end
	done            bool
}

// create makes a temporary file for a name. It takes the permissions of an existing file, unless
// the source's are kept; setuid and the like are left out, as the file becomes this user's.
func create(in *os.Root, name string, mode fs.FileMode, keep bool) (*newFile, error) {
	file := &newFile{in: in, name: name, temporary: localfs.TempName(name)}
	mode &= fs.ModePerm
	old, err := in.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case old.IsDir():
		return nil, &fs.PathError{Op: "write", Path: name, Err: errors.New("is a directory")}
	case old.Mode()&fs.ModeSymlink == 0 && !old.Mode().IsRegular():
		return nil, &fs.PathError{Op: "write", Path: name, Err: errNotRegular}
	case old.Mode().IsRegular() && localfs.Links(old) > 1: // its other names must get it, too
		return overwrite(in, name, old, mode, keep)
	case old.Mode().IsRegular() && !keep:
		mode, keep = old.Mode().Perm(), true
	}
	if keep {
		file.mode = &mode
	}
	file.File, err = in.OpenFile(file.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	return file, err
}

// overwrite opens a file to write it in place, if it is still the file that create found, and does
// not wait if a named pipe has taken its place. Its end is cut off once everything has arrived.
func overwrite(in *os.Root, name string, old fs.FileInfo, mode fs.FileMode,
	keep bool) (*newFile, error) {
	f, err := in.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if is, err := f.Stat(); err != nil || !os.SameFile(old, is) {
		f.Close()
		return nil, &fs.PathError{Op: "write", Path: name, Err: errNotRegular}
	}
	file := &newFile{File: f, in: in, name: name}
	if keep {
		file.mode = &mode
	}
	return file, nil
}

// written returns the name that the file has while it is written.
func (f *newFile) written() string {
	if f.temporary == "" {
		return f.name
	}
	return f.temporary
}

// commit gives the file its name.
func (f *newFile) commit() error {
	if f.mode != nil {
		if err := f.Chmod(*f.mode); err != nil {
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	var err error
	if f.temporary != "" {
		err = localfs.Replace(f.in, f.temporary, f.name)
	}
	f.done = err == nil
	return err
}

// drop removes the file unless it has its name.
func (f *newFile) drop() {
	if !f.done {
		f.Close()
		if f.temporary != "" {
			f.in.Remove(f.temporary)
		}
	}
}
