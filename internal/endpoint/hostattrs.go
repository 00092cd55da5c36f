package endpoint

import (
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/quirks"
)

// Some hosts accept files but let nobody set their times or permissions: AWS Transfer Family in
// front of S3, Azure, and servers that deny SETSTAT. So do some file systems of this machine: a
// memory card that another user mounted, and many with FUSE. The attributes are then tried one by
// one. An attribute refused for a file that this run has made is refused for all, so it is reported
// once and not tried again, and the file counts as copied. Directories are judged separately:
// pkg/sftp's in-memory server refuses only their attributes. An entry that others made may be
// theirs, or on a full disk, and a refusal does not tell: the caller has to find out.

// SetEach sets attributes one by one, after they were refused together. own is set for an entry
// that this run has made.
func SetEach(q *quirks.Quirks, set usftp.NewAttrs, kind fs.FileMode, own bool,
	try func(usftp.NewAttrs) error) (unset Unset, err error) {
	noTimes, noModes := &q.NoTimes, &q.NoModes
	if unset.Dirs = kind == fs.ModeDir; unset.Dirs {
		noTimes, noModes = &q.NoDirTimes, &q.NoDirModes
	}
	q.Settable(&set, unset.Dirs)
	if set.SetTimes {
		err = given(try(usftp.NewAttrs{SetTimes: true, Atime: set.Atime, Mtime: set.Mtime}), own,
			noTimes, &unset.Times)
	}
	if err == nil && set.SetMode {
		err = given(try(usftp.NewAttrs{SetMode: true, Mode: set.Mode}), own, noModes, &unset.Modes)
	}
	if err == nil && set.SetOwner { // set only for users who asked for it
		err = try(usftp.NewAttrs{SetOwner: true, UID: set.UID, GID: set.GID})
	}
	return unset, err
}

// given returns why an entry did not get an attribute. That it is refused for this run's own entry
// is no error: it is for all, and unset says so the first time.
func given(err error, own bool, known *atomic.Bool, unset *bool) error {
	if !own || !Refused(err) {
		return err
	}
	*unset = !known.Swap(true)
	return nil
}

// Pretends finds out whether a host claimed to set attributes of this run's own file, but did not:
// wolfSSH does so for times. look stats the file, and try sets attributes. Hosts that store times
// or modes approximately, as on FAT, do set them.
func Pretends(q *quirks.Quirks, set usftp.NewAttrs, look func() (Info, error),
	try func(usftp.NewAttrs) error) (unset Unset) {
	is, err := look()
	if err != nil {
		return unset
	}
	if set.SetTimes && is.HasTimes && Apart(is.Mtime, set.Mtime) > rounding {
		unset.Times = !q.NoTimes.Swap(true)
	}
	if !set.SetMode || !is.HasMode || is.Perm() == set.Mode.Perm() {
		return unset
	}
	other := usftp.NewAttrs{SetMode: true, Mode: is.Perm() ^ 0o100}
	if try(other) != nil {
		return unset
	}
	if now, err := look(); err == nil && now.HasMode && now.Perm() == is.Perm() {
		unset.Modes = !q.NoModes.Swap(true)
	} else {
		try(usftp.NewAttrs{SetMode: true, Mode: set.Mode})
	}
	return unset
}

// rounding is how far stored times may be from the ones set: FAT has every other second.
const rounding = 2 * time.Second

// SetUnfollowed sets attributes, but follows no link in the last element. On servers that lack
// lsetstat@openssh.com, refuse it or cannot carry it out (a chroot without /proc), it checks the
// type immediately before. If the host does not tell the type, an entry that this run has made
// (own) is assumed to be unchanged.
func SetUnfollowed(client *usftp.Client, name string, set usftp.NewAttrs, kind fs.FileMode,
	own bool) error {
	err := client.LsetAttrs(name, set)
	if !errors.Is(err, errors.ErrUnsupported) && !Refused(err) {
		return err
	}
	switch info, err := Unfollowed(client, name); {
	case err != nil && !(own && private.Untold(err)):
		return err
	case err == nil && info.Mode().Type() != kind:
		return &fs.PathError{Op: "setstat", Path: name, Err: ErrReplaced}
	}
	return client.SetAttrs(name, set)
}
