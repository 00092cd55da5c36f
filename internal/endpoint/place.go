// Package endpoint makes file systems alike: this machine's, a host's, and a stream, which has
// none. It knows what can be done with a name, and nothing of copies, trees or journals.
//
// A [Place] is one end of a run. A [Root] is what lies below one directory there: no link below it
// is followed, whatever becomes of the directories meanwhile, as far as the system or the host can
// promise that. Both are safe for concurrent use. Requests to a host are repeated over a new
// connection if the old one was lost; each method says what follows from that.
package endpoint

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/pool"
)

// FS is what a Place and a Root have in common. In a Place names are paths; in a Root they are
// relative to its directory, with slashes, and "." is the directory itself.
type FS interface {
	// Lstat describes what is there. It follows no link in the last element.
	Lstat(name string) (Info, error)

	ReadLink(name string) (string, error)

	// List calls each for the entries of a directory until it returns false. err is why an entry
	// could not be looked at. was is what the directory was when it was found, or nil; if another
	// one is there now, the error is ErrMoved, as far as that can be told.
	//
	// If the connection is lost, the listing starts over. Names that each has had are then left
	// out; but if restart is not nil, it is called, and all names come again.
	List(dir string, was *Info, restart func(),
		each func(name string, i Info, err error) bool) error

	// ReadSmall returns up to most bytes of a regular file, and what it was before it was read. It
	// follows no link: for anything else than a regular file the error is ErrNotRegular.
	ReadSmall(name string, most int64) (data []byte, was Info, err error)

	// WriteSmall writes a small file. With create it makes the file, and fails if the name exists;
	// what it could not write it removes again, or the error is ErrLeft too. Without, the file must
	// exist and have the size of data. If the connection was lost, an error is ErrRepeated too,
	// since the first request may have been carried out.
	WriteSmall(name string, data []byte, create bool) error

	// Remove removes a file or an empty directory. It follows no link. With dir it removes nothing
	// but a directory: a file that has taken its place stays. It works for a few seconds after the
	// run's context has ended, too, for what has to be cleaned up.
	Remove(name string, dir bool) error
}

// A Place is one end of a run.
type Place interface {
	FS

	// Join returns the path of a name in a directory, Base the name of a path's copy in another
	// directory, "." if the contents of a directory are meant.
	Join(dir, name string) string
	Base(path string) string

	// Identity identifies a path in the journal. host is "" on this machine; ok is false for
	// streams.
	Identity(path string) (host, name string, ok bool)

	// Stat is Lstat that follows links.
	Stat(path string) (Info, error)

	// RealPath returns a path without links and "..".
	RealPath(path string) (string, error)

	// Mark returns what tells a directory from others that may take its place, as far as that can
	// be known.
	Mark(dir string) (string, error)

	// Volume returns numbers that identify a path's file system; zeros if unknown.
	Volume(path string) [2]uint64

	// Cleanup returns a context for work that remains after ctx has ended. It ends after
	// CleanupTime, or if the run was interrupted and a host is silent.
	Cleanup(ctx context.Context) (context.Context, context.CancelFunc)

	// Below returns what lies below an existing directory. It follows links to it.
	Below(dir string) (Root, error)

	// Conn returns the connection to the host, which is replaced when it is lost; nil on this
	// machine. Opener returns how files are opened, over the connection that on has, if they are on
	// a host.
	Conn() *pool.Conn
	Opener(on *pool.Host) Opener
}

// A Root is what lies below one directory, called the root.
type Root interface {
	FS

	// LookDir describes a directory, and fails if it is not one or no longer where it was. The root
	// may be a link.
	LookDir(dir string) (Info, error)

	// FollowsLinks reports whether the requests below the root may follow a link that has taken the
	// place of a directory, so that somebody has to look: see InPlace and Unmoved.
	FollowsLinks() bool

	// InPlace fails if a link has taken the place of a directory, as far as one look shows.
	InPlace(dir string) error

	// Unmoved fails if a directory is no longer where it was. It must be called before something is
	// deleted there. Called for the root first, it finds out what it needs for all others.
	Unmoved(dir string) error

	// Mkdir makes a directory. made is false, without an error, if one is there already.
	Mkdir(name string, perm fs.FileMode) (made bool, err error)

	// Symlink makes a link that says text. It fails with fs.ErrExist if something is there.
	Symlink(text, name string) error

	// ReplaceByLink makes a link in place of a file or a link. It may use the other two names,
	// which are in the same directory.
	ReplaceByLink(text, name, temporary, aside string) error

	// SameLink reports whether have, which ReadLink returned for name, means want.
	SameLink(name, have, want string) bool

	// Rename and Link give a file another name, Link besides the one it has. Both fail with
	// fs.ErrExist if something is there.
	Rename(from, to string) error
	Link(name, to string) error

	// SetAttrs sets attributes. kind is the type that name was found to have, and own is set for
	// what this run has made. It follows no link, except for the root. If a host refuses all of
	// them together, each is tried. Times and permissions that a host does not set at all are left
	// out; the first time that shows, Unset says so. A file that is known to have other names,
	// which would change with it, is left alone: the error is ErrOtherNames.
	SetAttrs(name string, kind fs.FileMode, own bool, set usftp.NewAttrs) (Unset, error)

	// KeepDirLink lets a link that leads to a directory stand for it from now on, and describes the
	// directory. It fails with ErrLinkInWay if the link leads to anything else.
	KeepDirLink(name string) (Info, error)

	// Leave says that nothing more will be done in a directory for now. On this machine it fails if
	// the directory no longer has its name, so that what was put there is elsewhere: ErrWentAlong.
	Leave(dir string) error
	Close()
}

// MkdirAll makes a directory and those above it.
func MkdirAll(in Root, dir string) error {
	_, err := in.Mkdir(dir, 0o777)
	if above := path.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != "." {
		if err = MkdirAll(in, above); err == nil {
			_, err = in.Mkdir(dir, 0o777)
		}
	}
	return err
}

// Unset says which attributes a host was found not to set for any file, or with Dirs for
// directories.
type Unset struct{ Times, Modes, Dirs bool }

// Say calls say for each of them with a sentence for people.
func (u Unset) Say(say func(string)) {
	if u.Dirs {
		what := "permissions"
		if u.Times && u.Modes {
			what = "times and permissions"
		} else if u.Times {
			what = "times"
		}
		if u.Times || u.Modes {
			say("the host does not set " + what + " of directories")
		}
		return
	}
	if u.Times {
		say("the host does not set times: what is copied gets the current time")
	}
	if u.Modes {
		say("the host does not set permissions: what is copied gets those that the host chooses")
	}
}

// NameForm returns what is the same for all names that some file system takes for one: those that
// differ only in case, or in how Unicode spells a letter.
func NameForm(name string) string {
	if IsASCII(name) {
		return strings.ToLower(name)
	}
	return norm.NFC.String(localfs.FoldName(norm.NFC.String(name)))
}

// IsASCII reports whether a name has no other letters.
func IsASCII(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
