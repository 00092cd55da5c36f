// Package endpoint gives file systems one interface: this machine's, a host's, and a stream, which
// has none. It knows operations on names, and nothing of copies, trees or journals.
//
// A [Place] is one end of a run. A [Root] is the tree below one directory there: no link below it
// is followed, whatever becomes of the directories meanwhile, if the system or the host can promise
// that. Both are safe for concurrent use. Requests to a host are repeated over a new connection if
// the old one was lost; each method states the consequences.
//
// The interfaces describe their methods. A comment on an implementation says what is special there.
package endpoint

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
)

// FS is the common part of a Place and a Root. In a Place names are paths; in a Root they are
// relative to its directory, with slashes, and "." is the directory itself.
type FS interface {
	// Lstat describes an entry. It follows no link in the last element.
	Lstat(name string) (Info, error)

	ReadLink(name string) (string, error)

	// List calls each for the entries of a directory until it returns false. err is why an entry could
	// not be described. was is the directory's Info when it was found, or nil; if another directory is
	// seen in its place, the error is ErrMoved.
	//
	// If the connection is lost, the listing starts over. Names already passed to each are then left
	// out; but if restart is not nil, it is called, and all names come again.
	List(dir string, was *Info, restart func(),
		each func(name string, i Info, err error) bool) error

	// ReadSmall returns up to most bytes of a regular file, and its Info before the read. It follows
	// no link: for anything but a regular file the error is ErrNotRegular.
	ReadSmall(name string, most int64) (data []byte, was Info, err error)

	// WriteSmall writes a small file. With create, which may be [Create], it creates the file, and
	// fails if the name exists; if it cannot write the file, it removes it again, or the error is
	// ErrLeft too. It calls create once the file exists; on a host known to work in order that is
	// before its data has arrived. Without, the file must exist and have the size of data; for
	// cleaning up that also works for a few seconds after the run's context has ended. If the
	// connection was lost, an error is ErrRepeated too, since the first request may have been
	// executed.
	WriteSmall(name string, data []byte, create func()) error

	// Remove removes a file or an empty directory. It follows no link. With dir it removes only a
	// directory: a file that has taken its place stays. For cleaning up it also works for a few
	// seconds after the run's context has ended.
	Remove(name string, dir bool) error
}

// A Place is one end of a run.
type Place interface {
	FS

	// Join returns the path of a name in a directory, Base the name of a path's copy in another
	// directory, or "." if the contents of a directory are meant.
	Join(dir, name string) string
	Base(path string) string

	// Identity identifies a path in the journal. host is "" on this machine; ok is false for
	// streams.
	Identity(path string) (host, name string, ok bool)

	// Stat works like Lstat, but follows links.
	Stat(path string) (Info, error)

	// RealPath returns a path without links and "..".
	RealPath(path string) (string, error)

	// Mark returns a text that distinguishes a directory from others that may take its place (best
	// effort).
	Mark(dir string) (string, error)

	// Volume returns numbers that identify a path's file system; zeros if unknown.
	Volume(path string) [2]uint64

	// Cleanup returns a context for work that remains after ctx has ended. It ends after
	// CleanupTime, or if the run was interrupted and a host is silent.
	Cleanup(ctx context.Context) (context.Context, context.CancelFunc)

	// Below returns the Root of an existing directory. It follows links to the directory.
	Below(dir string) (Root, error)

	// Conn returns the connection to the host, which is replaced when it is lost; nil on this machine.
	// Opener returns an opener of files, over on's connection if they are on a host.
	Conn() *pool.Conn
	Opener(on *pool.Host) Opener
}

// A Root is the tree below one directory, called the root.
type Root interface {
	FS

	// LookDir describes a directory, and fails if it is not one or no longer where it was. The root
	// may be a link.
	LookDir(dir string) (Info, error)

	// FollowsLinks reports whether requests below the root may follow a link that has taken the place
	// of a directory, so that the caller has to look: see InPlace and Unmoved.
	FollowsLinks() bool

	// InPlace looks once, and fails if a link has taken the place of a directory.
	InPlace(dir string) error

	// Unmoved fails if a directory is no longer where it was. It must be called before a deletion
	// there. Called for the root first, it gathers the facts that it needs for all others.
	Unmoved(dir string) error

	// Mkdir makes a directory. made is false, without an error, if the directory exists already.
	Mkdir(name string, perm fs.FileMode) (made bool, err error)

	// Symlink makes a link with this text. It fails with fs.ErrExist if the name exists.
	Symlink(text, name string) error

	// ReplaceByLink makes a link in place of a file or a link. It may use the other two names,
	// which are in the same directory.
	ReplaceByLink(text, name, temporary, aside string) error

	// SameLink reports whether have, which ReadLink returned for name, means want.
	SameLink(name, have, want string) bool

	// Rename and Link give a file another name; with Link it keeps its old one, too. Both fail with
	// fs.ErrExist if the new name exists.
	Rename(from, to string) error
	Link(name, to string) error

	// SetAttrs sets attributes. kind is the type that name was found to have, and own is set for an
	// entry that this run has made. It follows no link, except for the root. If a host refuses the
	// attributes together, each is tried. Times and permissions that the target does not set at all
	// are left out; the first time that shows, Unset says so. A file that is known to have other
	// names, which would change with it, is left alone: the error is ErrOtherNames.
	SetAttrs(name string, kind fs.FileMode, own bool, set usftp.NewAttrs) (Unset, error)

	// Guard makes requests fail with may's error, unless that is nil, before they are repeated over a
	// new connection. may is called by several goroutines and must not use this Root.
	Guard(may func() error)

	// KeepDirLink lets a link that leads to a directory stand for it from now on, and describes the
	// directory. It fails with ErrLinkInWay if the link leads to anything else.
	KeepDirLink(name string) (Info, error)

	// Leave says that nothing more will be done in a directory for now. On this machine it fails with
	// ErrWentAlong if the directory no longer has its name: entries put there are elsewhere.
	Leave(dir string) error
	Close()
}

// dirLinks are the links below a Root that stand for the directories they lead to: the user wants
// that, and the source has directories of these names. No other link below a Root is followed, nor
// is any link below one of these.
type dirLinks struct {
	some atomic.Bool // there is one; otherwise no lookup is needed
	mu   sync.RWMutex
	kept map[string]*dirLink
}

// A dirLink is one such link.
type dirLink struct {
	info fs.FileInfo // of the directory; nil on a host
	real realPath    // on a host
}

func (l *dirLinks) keep(name string, to *dirLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = make(map[string]*dirLink)
	}
	l.kept[name] = to
	l.some.Store(true)
}

// of returns the link of this name, or nil if it is not one of them.
func (l *dirLinks) of(name string) *dirLink {
	if !l.some.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.kept[name]
}

// above returns the nearest of the links on the way to a name, which may be the name itself, or "."
// if there is none.
func (l *dirLinks) above(name string) string {
	if !l.some.Load() {
		return "."
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for name != "." && l.kept[name] == nil {
		name = path.Dir(name)
	}
	return name
}

// CleanupTime limits how long cleaning up after an interruption may take.
const CleanupTime = 5 * time.Second

// Create is for FS.WriteSmall.
func Create() {}

// MkdirAll makes a directory and those above it that are missing.
func MkdirAll(in Root, dir string, perm fs.FileMode) error {
	_, err := in.Mkdir(dir, perm)
	if above := path.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != "." {
		if err = MkdirAll(in, above, perm); err == nil {
			_, err = in.Mkdir(dir, perm)
		}
	}
	return err
}

// Unset says which attributes a host, or with Here a file system of this machine, was found not to
// set for any file, or with Dirs for directories.
type Unset struct{ Times, Modes, Dirs, Here bool }
