package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
)

// A FileList names the files of a tree that are copied, as rsync's --files-from does. The
// directories above them are made; a directory that is named is made, too, but what is in it is not
// copied, unless its name ends in a slash or the list is Recursive.
type FileList struct {
	// Names are relative to the source, with slashes. A leading slash is left out, and ".." leads
	// no further up than to the source.
	Names []string

	// Recursive copies everything in the directories that are named.
	Recursive bool
}

// longestListed is more than a path has on any system.
const longestListed = 64 << 10

// errNoLines and errNoNames say that something is no list of the kind that was asked for. No path
// has a NUL, or is so long.
var (
	errNoLines = endpoint.Explain("not a list of paths that end in a newline", fs.ErrInvalid)
	errNoNames = endpoint.Explain("not a list of paths that end in a NUL", fs.ErrInvalid)
)

// ReadFileList reads the names in a list, one per line, or each up to a NUL. As in rsync, empty
// ones and those that begin with "#" or ";" are left out, and a carriage return ends a line, too.
// Of what cannot be such a list the error is [fs.ErrInvalid].
func ReadFileList(r io.Reader, nul bool) (*FileList, error) {
	ends, invalid := "\n\r", errNoLines
	if nul {
		ends, invalid = "\x00", errNoNames
	}
	list := new(FileList)
	names := bufio.NewScanner(r)
	names.Buffer(nil, longestListed)
	names.Split(func(data []byte, atEOF bool) (advance int, token []byte, err error) {
		if i := bytes.IndexAny(data, ends); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for names.Scan() {
		switch name := names.Text(); {
		case strings.IndexByte(name, 0) >= 0:
			return nil, invalid
		case name != "" && name[0] != '#' && name[0] != ';':
			list.Names = append(list.Names, name)
		}
	}
	if errors.Is(names.Err(), bufio.ErrTooLong) {
		return nil, invalid
	}
	return list, names.Err()
}

// A listed is what a FileList names in one directory of a tree, and below it.
type listed struct {
	below  map[string]*listed
	named  bool // and not only something below it
	inside bool // so is what is in it
	whole  bool // so is everything below it

	found atomic.Bool // it was seen in the source
	read  atomic.Bool // all that is in it was
}

func newListed(list *FileList) *listed {
	top := new(listed)
	for _, name := range list.Names {
		at := top
		for element := range strings.SplitSeq(path.Clean("/" + name)[1:], "/") {
			if element == "" {
				continue
			}
			next := at.below[element]
			if next == nil {
				if at.below == nil {
					at.below = make(map[string]*listed)
				}
				next = new(listed)
				at.below[element] = next
			}
			at = next
		}
		at.named = true
		at.inside = at.inside || strings.HasSuffix("/"+name, "/") || strings.HasSuffix("/"+name, "/.")
		at.whole = at.whole || list.Recursive
	}
	top.found.Store(true)
	return top
}

// in returns what is named in a directory; all reports whether that is everything.
func (l *listed) in(dir string) (at *listed, all bool) {
	at = l
	if dir != "." {
		for element := range strings.SplitSeq(dir, "/") {
			if at == nil || at.whole {
				break
			}
			at = at.below[element]
		}
	}
	return at, at != nil && at.whole
}

// list lists what takes part of a directory.
func (l *listed) list(d *directory, each func(*entry, error) bool) error {
	at, all := l.in(d.rel)
	switch {
	case all:
		return d.listAll(each)
	case at == nil:
		return nil
	}
	err := d.listAll(func(e *entry, err error) bool { return !at.takes(e) || each(e, err) })
	if err == nil {
		at.read.Store(true)
	}
	return err
}

// takes reports whether an entry of a directory is named, or leads to what is.
func (l *listed) takes(e *entry) bool {
	mode, next := e.info.Mode, l.below[e.name]
	if next == nil {
		return l.inside
	}
	leads := mode.IsDir() ||
		e.dir.tree.leads(mode) && e.dir.tree.options.Links == LinksFollow
	if !next.named && !l.inside && !leads {
		return false
	}
	next.found.Store(true)
	return true
}

var (
	errNotFound = endpoint.Explain("the list names it, but the source does not have it",
		fs.ErrNotExist)
	errNotReached = errors.New("the list names it, but the way to it is a symbolic link, or it has come since; transfer.LinksFollow follows links")
)

// missing reports what is named and was not found, one by one.
func (l *listed) missing(t *tree) {
	var looks errgroup.Group
	looks.SetLimit(deleteFiles)
	l.eachMissing(".", false, func(rel string, excused bool) {
		if t.ctx.Err() != nil {
			return
		}
		looks.Go(func() error {
			source := t.src.Join(t.route.Source, rel)
			switch _, err := t.src.Lstat(source); {
			case err == nil && excused:
			case err == nil:
				err = errNotReached
				fallthrough
			default:
				if isAbsent(err) {
					err = errNotFound // not as of the source, where a sync expects it
				}
				t.fail("", source, t.dst.Join(t.root.target, rel),
					&fs.PathError{Op: "list", Path: source, Err: err})
			}
			return nil
		})
	})
	looks.Wait()
}

// eachMissing calls yield for what is named and was not found. excused reports whether it is known
// why: it is in a directory that is copied whole, or that was found and was left out or has failed.
func (l *listed) eachMissing(rel string, excused bool, yield func(rel string, excused bool)) {
	if l.named && !l.found.Load() {
		yield(rel, excused)
	}
	excused = excused || l.whole || l.found.Load() && !l.read.Load()
	for name, next := range l.below {
		next.eachMissing(path.Join(rel, name), excused, yield)
	}
}
