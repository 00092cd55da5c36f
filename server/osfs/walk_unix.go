//go:build linux || darwin || freebsd

package osfs

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/turn"
	"github.com/usftp/usftp/wire"
)

const (
	// maxLinks limits the links that a path may lead through, as on Linux.
	maxLinks = 40

	// maxSteps limits the directories that one path may make us open. Only paths through many long
	// links come near it; they fail like paths with too many links.
	maxSteps = 1 << 15

	// turnSteps is the number of steps that a path may take before waiting for a turn, and in a
	// turn.
	turnSteps = 128

	// maxHeld is the number of directories that a walk keeps open, so that it can go up without
	// starting over.
	maxHeld = 16
)

// errEscapes refuses links that lead out of the tree, and all absolute ones.
var errEscapes = &server.StatusError{Code: wire.PermissionDenied,
	Message: "the link leads out of the served directory"}

// walk resolves one path below an open directory as the kernel does: element by element, from
// directory handle to directory handle, so that swapping links meanwhile cannot lead it out. It
// lets the kernel resolve several elements at once only where that refuses links itself.
type walk struct {
	pace
	absolute bool // absolute links start at the root; otherwise they are refused
	create   bool // the path may name a file to be created
	unlinked bool // no link is followed
	hides    bool // the names of unfinished uploads are refused

	root  int
	names []string // from the root to the current directory; none was a link
	held  []int    // the last directories of names, open

	rest   string // of the path
	client int    // bytes at the end of rest that came from the client rather than from links
	links  int
}

func newWalk(ctx context.Context, root int, name string) *walk {
	return &walk{pace: pace{ctx: ctx}, root: root, rest: name, client: len(name)}
}

// close ends the walk.
func (w *walk) close() {
	w.pause()
	w.leave()
}

// leave closes the directories that are open.
func (w *walk) leave() {
	for _, fd := range w.held {
		unix.Close(fd)
	}
	w.held = nil
}

// dir returns the current directory.
func (w *walk) dir() int {
	if len(w.held) == 0 {
		return w.root
	}
	return w.held[len(w.held)-1]
}

// next takes the next element off the path. last means that at most slashes follow, and slash that
// some do. link reports whether the element came from a link. Names that neither clients nor links
// may use are an error.
func (w *walk) next() (element string, last, slash, link bool, err error) {
	w.rest = strings.TrimLeft(w.rest, "/")
	link = len(w.rest) > w.client
	element, after, slash := strings.Cut(w.rest, "/")
	w.rest = after
	w.client = min(w.client, len(after))
	if w.hides && isHidden(element) {
		err = errHidden
	}
	return element, strings.Trim(after, "/") == "", slash, link, err
}

// stride enters all directories before the last element of the path at once, if the system can
// refuse links among them. If it cannot, or refuses for any reason, the walk goes element by
// element, which follows links and has the right error.
func (w *walk) stride() {
	last := strings.LastIndexByte(strings.TrimRight(w.rest, "/"), '/')
	if last < 0 || w.step() != nil {
		return
	}
	dirs := strings.Trim(w.rest[:last], "/")
	names := strings.Split(dirs, "/")
	if len(names) == 1 || len(names) > turnSteps || slices.ContainsFunc(names, w.needsStep) {
		return
	}
	fd, err := openWithin(w.dir(), dirs)
	if err != nil {
		return
	}
	w.held, w.names = append(w.held, fd), names
	w.rest = w.rest[last+1:]
	w.client = len(w.rest)
}

// needsStep reports whether element needs more than entering a directory.
func (w *walk) needsStep(element string) bool {
	return element == "" || element == "." || element == ".." || w.hides && isHidden(element)
}

// pace counts the steps of a path. Many steps take turns with other sessions' work: a short path
// may lead through links with tens of thousands of elements.
type pace struct {
	ctx   context.Context
	steps int
	end   func() // ends the turn; nil outside a turn
}

func (p *pace) step() error {
	if p.steps++; p.steps > maxSteps {
		return unix.ELOOP
	}
	if p.steps%turnSteps == 0 {
		p.pause()
		end, err := turn.Take(p.ctx)
		if err != nil {
			return err
		}
		p.end = end
	}
	return p.ctx.Err()
}

// pause ends the turn. It must precede any wait for anything but the file system.
func (p *pace) pause() {
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// enter goes one element further, following links. The target of a link is put before the rest of
// the path.
func (w *walk) enter(element string, slash, link bool) error {
	switch element {
	case "", ".":
		return nil
	case "..":
		if err := w.step(); err != nil {
			return err
		}
		// Leaving this way requires search permission on the directory.
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

// isLinkError reports whether opening without following links may have failed because of a link;
// systems return different errors.
func isLinkError(err error) bool {
	return err == unix.ELOOP || err == unix.ENOTDIR || err == unix.EMLINK
}

// follow puts the target of the link element before the rest of the path. It returns failed if
// element is not a link.
func (w *walk) follow(element string, slash bool, failed error) error {
	target, err := readlinkAt(w.dir(), element)
	if err == unix.EINVAL {
		return failed
	}
	if err != nil {
		return err
	}
	if w.unlinked {
		return errLinkBeneath
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
		w.leave()
		w.names = w.names[:0]
	}
	if slash {
		target += "/" + w.rest
	}
	w.rest = target
	return nil
}

// up goes to the parent directory, the one that the walk came through. The root is its own parent;
// links that would lead out of it are refused.
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

// lookUp calls op for the file at the path: with its directory and its name there, or with the
// directory itself and ".". op must not follow links, and returns ELOOP for a link to be followed;
// like the kernel, lookUp always follows a link before a trailing slash.
func (w *walk) lookUp(follow bool, op func(dir int, base string) error) error {
	w.stride()
	for {
		element, last, slash, link, err := w.next()
		if err != nil {
			return err
		}
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
				w.pause()
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
				w.pause()
				return op(w.dir(), ".")
			}
			continue
		}
		w.pause()
		err = op(w.dir(), element)
		if !follow || !isLinkError(err) {
			return err
		}
		if err := w.follow(element, slash, err); err != nil {
			return err
		}
	}
}

// toParent calls op to make, remove or rename the last element of the path: with the element's
// directory, and the element as written. The kernel refuses all of these for "." and ".." without
// looking.
func (w *walk) toParent(op func(dir int, base string) error) error {
	w.stride()
	for {
		element, last, slash, link, err := w.next()
		if err != nil {
			return err
		}
		if last {
			if err := w.step(); err != nil {
				return err
			}
			if element == "" {
				return unix.EBUSY // the top
			}
			if slash {
				if element, err = withSlash(w.dir(), element); err != nil {
					return err
				}
			}
			w.pause()
			return retry(func() error { return op(w.dir(), element) })
		}
		if err := w.enter(element, slash, link); err != nil {
			return err
		}
	}
}

// realPath resolves the path by the rules of OpenSSH's sftp-realpath.c: the last element need not
// exist, and a trailing slash, "." or ".." is allowed after something that is not a directory.
func (w *walk) realPath() (string, error) {
	file := "" // the last element, if it is not a directory
	for w.rest != "" {
		element, _, slash, link, err := w.next()
		switch {
		case err != nil:
			return "", err
		case element == "" || element == ".":
			continue
		case element == ".." && file != "":
			file = ""
			continue
		case file != "":
			return "", unix.ENOTDIR
		}
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
			file = element // a link that leads nowhere stands for itself
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
