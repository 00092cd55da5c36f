package transfer

import (
	"errors"
	"io/fs"
	"os"

	"github.com/usftp/usftp"
)

// What lies below a tree's target is written in place only as what it was seen to be: no link is
// followed, whoever has put it there, least of all a server that sends a link and then a file of
// its name. A link gives way to the file, as it does to a rename. A name that was free is taken
// only as long as it is, and a regular file may be one that a try before this one has begun.

var errTakenMeanwhile = errors.New("another file has taken its place")

// openBelow opens the file itself that an entry of a tree is written to. os.Root keeps what is
// written in the target, and follows links in it.
func (t *localTarget) openBelow(perm fs.FileMode) (*os.File, error) {
	info, err := t.root.Lstat(t.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.root.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		if err := t.root.Remove(t.name); err != nil {
			return nil, err
		}
		return t.root.OpenFile(t.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	case !info.Mode().IsRegular():
		return nil, inTheWay(t.path, info)
	}
	file, err := t.root.OpenFile(t.name, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && (!os.SameFile(opened, info) ||
		t.before != nil && !os.SameFile(opened, t.before)) {
		err = &fs.PathError{Op: "write", Path: t.name, Err: errTakenMeanwhile}
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// inTheWay says that something cannot be written to.
func inTheWay(name string, info fs.FileInfo) error {
	why := ErrIsDirectory
	if !info.IsDir() {
		why = errors.New(kindOf(info.Mode()) + " is in the way")
	}
	return &fs.PathError{Op: "write", Path: name, Err: why}
}

// openItself opens the target on the host that is written as it is. Version 3 has no flag that
// keeps OPEN from following links (draft-02, section 6.3), so between the look and the opening of a
// file that is there somebody else on the host could still put one in its place; the source cannot.
func (r *run) openItself(target *remoteTarget, perm fs.FileMode) (*usftp.File, error) {
	client, flags := r.Host.Client, os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	if r.item == nil {
		return client.OpenFile(target.path, flags, perm)
	}
	info, err := client.Lstat(target.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		flags |= os.O_EXCL
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		if err := client.Remove(target.path); err != nil {
			return nil, err
		}
		flags |= os.O_EXCL
	case !info.Mode().IsRegular():
		return nil, inTheWay(target.path, info)
	}
	return client.OpenFile(target.path, flags, perm)
}
