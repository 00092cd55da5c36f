//go:build linux || darwin || freebsd

package osfs

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

const (
	// maxLinks is how many links a path may lead through, as on Linux.
	maxLinks = 40

	// maxSteps bounds the directories that one path may make us open. Only paths through many long
	// links come near it; they fail like those through too many.
	maxSteps = 1 << 15

	// maxHeld is how many directories a walk keeps open, to go back up without starting again.
	maxHeld = 16
)

// errEscapes is what a link that leads out of the tree gets, and every absolute one.
var errEscapes = &server.StatusError{Code: wire.PermissionDenied,
	Message: "the link leads out of the served directory"}

// walk resolves one path below an open directory as the kernel does: element by element, from
// directory handle to directory handle, so that nobody who swaps links meanwhile can lead it out.
// It never joins names into a path for the kernel to resolve.
type walk struct {
	ctx      context.Context
	absolute bool // absolute links begin at the root; otherwise they are refused
	create   bool // the path may be that of a file that is to be made

	root  int
	names []string // from the root to where the walk is; none of them was a link
	held  []int    // the last directories of names, open

	rest   string // of the path
	client int    // how many bytes at the end of rest the client sent; links made the others
	links  int
	steps  int
}

func newWalk(ctx context.Context, root int, name string) *walk {
	return &walk{ctx: ctx, root: root, rest: name, client: len(name)}
}

// close closes the directories that are open.
func (w *walk) close() {
	for _, fd := range w.held {
		unix.Close(fd)
	}
	w.held = nil
}

// dir is where the walk is.
func (w *walk) dir() int {
	if len(w.held) == 0 {
		return w.root
	}
	return w.held[len(w.held)-1]
}

// next takes the next element off the path. It is the last where nothing but slashes follows, and
// slash reports whether they do. Links reports whether the element came out of a link.
func (w *walk) next() (element string, last, slash, link bool) {
	w.rest = strings.TrimLeft(w.rest, "/")
	link = len(w.rest) > w.client
	element, after, slash := strings.Cut(w.rest, "/")
	w.rest = after
	w.client = min(w.client, len(after))
	return element, strings.Trim(after, "/") == "", slash, link
}

// step counts what the path costs.
func (w *walk) step() error {
	if w.steps++; w.steps > maxSteps {
		return unix.ELOOP
	}
	return w.ctx.Err()
}

// enter goes one element on, through links. The rest of the path changes if element is a link.
func (w *walk) enter(element string, slash, link bool) error {
	switch element {
	case "", ".":
		return nil
	case "..":
		// Only who may search a directory may leave it this way.
		if _, err := statAt(w.dir(), "."); err != nil {
			return err
		}
		return w.up(link)
	}
	if err := w.step(); err != nil {
		return err
	}
	fd, err := openAt(w.dir(), element, openDirectory|unix.O_NOFOLLOW, 0)
	if isLinkError(err) {
		return w.follow(element, slash, err)
	}
	if err != nil {
		return err
	}
	w.push(fd, element)
	return nil
}

func (w *walk) push(fd int, name string) {
	if len(w.held) == maxHeld {
		unix.Close(w.held[0])
		w.held = append(w.held[:0], w.held[1:]...)
	}
	w.held = append(w.held, fd)
	w.names = append(w.names, name)
}

// isLinkError reports whether opening without following links may have failed because there was
// one: the systems differ.
func isLinkError(err error) bool {
	return err == unix.ELOOP || err == unix.ENOTDIR || err == unix.EMLINK
}

// follow puts the target of the link called element before the rest of the path. It returns failed
// if element is no link.
func (w *walk) follow(element string, slash bool, failed error) error {
	target, err := readlinkAt(w.dir(), element)
	if err == unix.EINVAL {
		return failed
	}
	if err != nil {
		return err
	}
	if err := w.step(); err != nil {
		return err
	}
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	if strings.HasPrefix(target, "/") {
		if !w.absolute {
			return errEscapes
		}
		w.close()
		w.names = w.names[:0]
	}
	if slash {
		target += "/" + w.rest
	}
	w.rest = target
	return nil
}

// up goes to the parent directory, which is the one that the walk came through. The root is its
// own; links that would lead out of it are refused.
func (w *walk) up(link bool) error {
	if len(w.names) == 0 {
		if link && !w.absolute {
			return errEscapes
		}
		return nil
	}
	if err := w.step(); err != nil {
		return err
	}
	w.names = w.names[:len(w.names)-1]
	unix.Close(w.held[len(w.held)-1])
	w.held = w.held[:len(w.held)-1]
	if len(w.held) > 0 || len(w.names) == 0 {
		return nil
	}
	names := w.names
	w.names = nil
	for _, name := range names {
		if err := w.step(); err != nil {
			return err
		}
		fd, err := openAt(w.dir(), name, openDirectory|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		w.push(fd, name)
	}
	return nil
}

// lookUp calls op for what the path names: with its directory and its name there, or with the
// directory itself and ".". Op must not follow links, and returns ELOOP for one when it is to be
// followed; a link before a trailing slash is followed always, as the kernel has it.
func (w *walk) lookUp(follow bool, op func(dir int, base string) error) error {
	for {
		element, last, slash, link := w.next()
		if last && slash && element != "." && element != ".." {
			st, err := statAt(w.dir(), element)
			switch {
			case err == unix.EACCES:
				return err
			case w.create:
				return unix.EISDIR
			case err != nil:
				return err
			case st.Mode&unix.S_IFMT == unix.S_IFDIR:
				return op(w.dir(), element)
			}
			if err := w.follow(element, slash, unix.ENOTDIR); err != nil {
				return err
			}
			continue
		}
		if !last || element == "" || element == "." || element == ".." {
			if err := w.enter(element, slash, link); err != nil {
				return err
			}
			if last && strings.Trim(w.rest, "/") == "" {
				return op(w.dir(), ".")
			}
			continue
		}
		err := op(w.dir(), element)
		if !follow || !isLinkError(err) {
			return err
		}
		if err := w.follow(element, slash, err); err != nil {
			return err
		}
	}
}

// toParent calls op for a path whose last element is to be made, removed or renamed: with the
// directory that holds it, and the element as it is written. The kernel refuses to do any of that
// to "." and "..", without looking.
func (w *walk) toParent(op func(dir int, base string) error) error {
	for {
		element, last, slash, link := w.next()
		if last {
			if err := w.step(); err != nil {
				return err
			}
			if element == "" {
				return unix.EBUSY // the top
			}
			if slash {
				var err error
				if element, err = withSlash(w.dir(), element); err != nil {
					return err
				}
			}
			return op(w.dir(), element)
		}
		if err := w.enter(element, slash, link); err != nil {
			return err
		}
	}
}

// realPath resolves the path by the rules of OpenSSH's sftp-realpath.c: what comes last need not
// exist, and of what is no directory a trailing slash, "." and ".." are not held against it.
func (w *walk) realPath() (string, error) {
	file := "" // where the walk is at no directory
	for w.rest != "" {
		element, _, slash, link := w.next()
		switch {
		case element == "" || element == ".":
			continue
		case element == ".." && file != "":
			file = ""
			continue
		case file != "":
			return "", unix.ENOTDIR
		}
		var err error
		if element == ".." {
			err = w.up(link)
		} else {
			err = w.enter(element, slash, link)
		}
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist) && !slash:
			file = element
		case err == unix.ENOTDIR || err == unix.EACCES && existsAt(w.dir(), element):
			file = element
		case err == errEscapes && element != ".." && w.rest == "":
			file = element // a link that goes nowhere is what it is
		default:
			return "", err
		}
	}
	names := w.names
	if file != "" {
		names = append(names, file)
	}
	return "/" + strings.Join(names, "/"), nil
}

func existsAt(dir int, base string) bool {
	_, err := statAt(dir, base)
	return err == nil
}
