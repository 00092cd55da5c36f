package transfer

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// A mirror is a target that can be compared and deleted from. All paths lie in a directory below
// the target.
type mirror interface {
	target

	// entries lists a directory. It calls reset when the listing starts over.
	entries(d *directory, reset func(), yield func(name string, f *facts) error) error

	// foldsCase reports whether names that differ only in case are the same file, as far as that is
	// known without asking.
	foldsCase() bool

	// storable returns the time closest to t that the target can hold.
	storable(t time.Time) time.Time

	lookAt(d *directory, name string) (facts, error) // follows no link
	readLink(e *entry) (string, error)
	linksTo(e *entry, have, want string) bool // whether what readLink returned means want

	// setAttrs fails with errOtherNames if the file is known to have other names, which would
	// change with it.
	otherNames(e *entry) bool
	setAttrs(e *entry, set usftp.NewAttrs) error

	// openDir adds all permissions of the owner to a directory's mode, if it is still where it was,
	// and returns the mode that the directory had. changed may be true even if it failed.
	// restoreDir gives that mode back.
	openDir(d *directory) (was fs.FileMode, changed bool, err error)
	restoreDir(d *directory, mode fs.FileMode) error

	// remove removes a file or an empty directory. It follows no link.
	remove(d *directory, name string, dir bool) error

	asSource() source // the same endpoint, for reading

	// unmoved fails if a listed directory is no longer where it was; ready, which is called first,
	// finds out what it needs for all directories. makeAll makes a directory and its parents, given
	// relative to the target. move moves a file to such a path, and hardLink gives it that as
	// another name; both fail with fs.ErrExist if something is there.
	ready()
	unmoved(d *directory) error
	makeAll(dir string) error
	move(d *directory, name, to string) error
	hardLink(d *directory, name, to string) error

	// keeps reports whether the target sets times and modes, as far as is known; probe finds out by
	// the lock.
	keeps() (times, modes bool)
	probe(lock string)

	// These are for the lock, which is a file at the top of the target. writeFile gets the flags
	// to open it with besides O_WRONLY: without any, for a file of the same size. removeFile works
	// after the job's context has ended.
	readFile(name string) (data []byte, written time.Time, err error)
	writeFile(name string, data []byte, flags int) error
	removeFile(ctx context.Context, name string) error
}

// localMirror and remoteMirror are targets of a sync.
type (
	localMirror  struct{ *localTarget }
	remoteMirror struct{ *remoteTarget }
)

func (t *localTarget) mirror() mirror  { return localMirror{t} }
func (t *remoteTarget) mirror() mirror { return remoteMirror{t} }

func (t localMirror) entries(d *directory, _ func(),
	yield func(name string, f *facts) error) error {
	if t.top == nil { // a dry run without a target
		return fs.ErrNotExist
	}
	return t.inside(d, func(in *os.Root) error {
		var failed error
		err := eachEntry(in, func(name string, info fs.FileInfo, err error) bool {
			if failed = ignoreMissing(err); err == nil {
				f := localFacts(info)
				failed = yield(name, &f)
			}
			return failed == nil
		})
		return cmp.Or(failed, err)
	})
}

func (t localMirror) lookAt(d *directory, name string) (facts, error) {
	if t.top == nil { // a dry run without a target
		return facts{}, fs.ErrNotExist
	}
	info, err := t.top.Lstat(path.Join(t.within(d), name))
	if err != nil {
		return facts{}, err
	}
	return localFacts(info), nil
}

func (t localMirror) readLink(e *entry) (to string, err error) {
	err = t.inside(e.dir, func(in *os.Root) error {
		to, err = in.Readlink(e.name)
		return err
	})
	return to, err
}

func (localMirror) linksTo(_ *entry, have, want string) bool { return have == want }

func (localMirror) foldsCase() bool                { return localfs.FoldsCase }
func (localMirror) storable(t time.Time) time.Time { return t }

func (t localMirror) otherNames(e *entry) (others bool) {
	t.inside(e.dir, func(in *os.Root) error {
		info, err := in.Lstat(e.name)
		others = err == nil && localfs.Links(info) > 1
		return err
	})
	return others
}

func (t localMirror) setAttrs(e *entry, set usftp.NewAttrs) error {
	return t.inside(e.dir, func(in *os.Root) error {
		info, err := in.Lstat(e.name)
		if err == nil && !info.Mode().IsRegular() {
			err = &fs.PathError{Op: "chmod", Path: e.target(), Err: errReplaced}
		}
		if err == nil && localfs.Links(info) > 1 {
			err = errOtherNames
		}
		if err != nil {
			return err
		}
		return setIn(in, e.name, set)
	})
}

func (t localMirror) openDir(d *directory) (was fs.FileMode, changed bool, err error) {
	err = t.above(d, func(in *os.Root, name string) error {
		info, err := in.Lstat(name)
		switch {
		case err != nil:
			return err
		case !info.IsDir():
			return errLinkInWay
		}
		mode, open := writable(info.Mode())
		if open {
			return nil
		}
		was, changed = info.Mode(), true
		return chmodDir(in, name, mode)
	})
	return was, changed, err
}

func (t localMirror) restoreDir(d *directory, mode fs.FileMode) error {
	return t.above(d, func(in *os.Root, name string) error {
		return chmodDir(in, name, mode&^fs.ModeType)
	})
}

// writable returns the mode of a directory in which something can be changed, and whether the
// directory has it already.
func writable(mode fs.FileMode) (with fs.FileMode, already bool) {
	with = mode | 0o700
	return with &^ fs.ModeType, with == mode
}

func (t localMirror) remove(d *directory, name string, _ bool) error {
	return t.inside(d, func(in *os.Root) error { return in.Remove(name) })
}

func (t localMirror) asSource() source { return &localSource{t.localEnd} }

// On this machine entries are deleted through os.Root, which stays inside the target even if
// directories are replaced by links meanwhile.

func (t localMirror) ready() {}

func (t localMirror) unmoved(d *directory) error {
	return t.inside(d, func(in *os.Root) error {
		open, err := in.Stat(".")
		if err != nil || d.rel == "." {
			return err
		}
		listed, err := t.top.Lstat(t.within(d))
		if err == nil && !os.SameFile(open, listed) {
			err = errLinkInWay
		}
		return err
	})
}

func (t localMirror) makeAll(dir string) error { return t.top.MkdirAll(dir, 0o777) }

func (t localMirror) move(d *directory, name, to string) error {
	if _, err := t.top.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return t.top.Rename(path.Join(t.within(d), name), to)
}

func (t localMirror) hardLink(d *directory, name, to string) error {
	return t.top.Link(path.Join(t.within(d), name), to)
}

func (t remoteMirror) entries(d *directory, reset func(),
	yield func(name string, f *facts) error) error {
	return t.over(d.target, func(client *usftp.Client, again bool) error {
		if again {
			reset()
		}
		for listed, err := range client.Entries(d.target) {
			if err != nil {
				return err
			}
			f := remoteFacts(listed.FileStat())
			if !f.hasMode {
				info, err := client.Lstat(listed.Name())
				if errors.Is(err, fs.ErrNotExist) {
					continue
				} else if err != nil {
					return err
				}
				f = remoteFacts(info.Sys().(*usftp.FileStat))
			}
			if err := yield(listed.BaseName(), &f); err != nil {
				return err
			}
		}
		t.link.Arrived()
		return nil
	})
}

func (t remoteMirror) lookAt(d *directory, name string) (f facts, err error) {
	look := func(client *usftp.Client, name string) (fs.FileInfo, error) {
		return private.OfClient(client).Look(name)
	}
	info, err := ask(t.remoteEnd, path.Join(d.target, name), look)
	if err == nil {
		f = remoteFacts(info.Sys().(*usftp.FileStat))
	}
	return f, err
}

func (t remoteMirror) readLink(e *entry) (string, error) {
	return ask(t.remoteEnd, e.target(), (*usftp.Client).ReadLink)
}

func (t remoteMirror) linksTo(e *entry, have, want string) (same bool) {
	t.over(e.target(), func(client *usftp.Client, _ bool) error {
		same = private.OfClient(client).LinksTo(e.target(), have, want)
		return nil
	})
	return same
}

func (remoteMirror) foldsCase() bool { return false }

func (remoteMirror) storable(t time.Time) time.Time {
	if t.Unix() >= 0 && t.Unix() <= math.MaxUint32 {
		return t
	}
	return nearest(t)
}

func (remoteMirror) otherNames(*entry) bool { return false } // hosts do not say

func (t remoteMirror) setAttrs(e *entry, set usftp.NewAttrs) error {
	s := t.job.tree.sync
	s.settable(&set)
	try := func(set usftp.NewAttrs) error {
		return t.over(e.target(), func(client *usftp.Client, _ bool) error {
			if err := t.inPlace(client, e.dir); err != nil {
				return err
			}
			return setUnfollowed(client, e.target(), set, fs.FileMode.IsRegular)
		})
	}
	err := try(set)
	if refused(err) {
		s.inventories.find()
		err = t.placement.setEach(set, false, nil, try)
	}
	return err
}

// openDir checks the directory's path for links immediately before. On servers with
// lsetstat@openssh.com, no link that takes the directory's place after that is followed either.
func (t remoteMirror) openDir(d *directory) (was fs.FileMode, changed bool, err error) {
	err = t.over(d.target, func(client *usftp.Client, _ bool) error {
		info, err := t.lookUnmoved(client, d)
		if err != nil || !info.Sys().(*usftp.FileStat).HasMode() {
			return err
		}
		mode, open := writable(info.Mode())
		if open {
			return nil
		}
		if !changed { // otherwise it was by the request that was lost
			was, changed = info.Mode(), true
		}
		if d.parent == nil {
			// the user named the target, so links in it are followed
			return client.Chmod(d.target, mode)
		}
		return setUnfollowed(client, d.target, usftp.NewAttrs{SetMode: true, Mode: mode},
			fs.FileMode.IsDir)
	})
	return was, changed, err
}

func (t remoteMirror) restoreDir(d *directory, mode fs.FileMode) error {
	return t.over(d.target, func(client *usftp.Client, _ bool) error {
		if _, err := t.lookUnmoved(client, d); err != nil {
			return err
		}
		return setUnfollowed(client, d.target,
			usftp.NewAttrs{SetMode: true, Mode: mode &^ fs.ModeType}, fs.FileMode.IsDir)
	})
}

func (t remoteMirror) asSource() source { return &remoteSource{t.remoteEnd} }

func (t remoteMirror) remove(d *directory, name string, dir bool) error {
	name = path.Join(d.target, name)
	return t.over(name, func(client *usftp.Client, again bool) (err error) {
		switch err = t.trusted(client, d); {
		case err != nil:
		case dir:
			err = client.RemoveDirectory(name)
		default:
			err = client.Remove(name)
		}
		if again && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (t remoteMirror) ready() {
	root := t.job.tree.root.target
	t.over(root, func(client *usftp.Client, _ bool) error { // unmoved reports the error
		if _, ok := t.view(client); ok {
			return nil
		}
		_, err := t.real.of(client, root)
		return err
	})
}

// unmoved asks the host for the directory's real path, unless the host has beneath@usftp and
// follows no link when it deletes. Plain SFTP cannot ask for that, so if a link replaces the
// directory between this check and the deletion, the deletion follows it.
func (t remoteMirror) unmoved(d *directory) error {
	return t.over(d.target, func(client *usftp.Client, _ bool) error {
		if _, ok := t.view(client); ok {
			t.trusting.Store(true)
			return nil
		}
		return t.unmovedOn(client, d)
	})
}

// trusted makes the check of unmoved if that relied on beneath@usftp, but this connection has
// reached a server without it.
func (t remoteMirror) trusted(client *usftp.Client, d *directory) error {
	if _, ok := t.view(client); ok || !t.trusting.Load() {
		return t.inPlace(client, d)
	}
	return t.unmovedOn(client, d)
}

func (t remoteMirror) unmovedOn(client *usftp.Client, d *directory) error {
	if d.rel == "." {
		return nil
	}
	_, err := t.lookUnmoved(client, d)
	return err
}

// lookUnmoved looks at a directory, and fails if it is no longer where it was.
func (t *remoteTarget) lookUnmoved(client *usftp.Client, d *directory) (fs.FileInfo, error) {
	if d.rel == "." {
		return client.Stat(d.target) // the user named the target, so links in it are followed
	}
	root, err := t.real.of(client, t.job.tree.root.target)
	if err != nil {
		return nil, err
	}
	looked := client.Async().Lstat(d.target)
	real, realErr := client.RealPath(d.target)
	info, err := looked.Wait()
	if private.Untold(err) {
		info, err = private.OfClient(client).Look(d.target)
	}
	if err = cmp.Or(realErr, err); err == nil && (!info.IsDir() ||
		comparable(real) != comparable(strings.TrimRight(root, `/\`)+"/"+d.rel)) {
		err = errLinkInWay
	}
	return info, err
}

// comparable returns what REALPATH answered in one form: servers for Windows may answer with
// backslashes, others begin with two slashes, or spell names as their file system does.
func comparable(real string) string {
	if !strings.HasPrefix(real, "/") {
		real = strings.ReplaceAll(real, `\`, "/")
	}
	return norm.NFC.String(path.Clean(real))
}

// realRoot caches the target's real path.
type realRoot struct{ path atomic.Pointer[string] }

func (r *realRoot) of(client *usftp.Client, root string) (string, error) {
	if known := r.path.Load(); known != nil {
		return *known, nil
	}
	real, err := client.RealPath(root)
	if err == nil {
		r.path.Store(&real)
	}
	return real, err
}

func (t remoteMirror) makeAll(dir string) error {
	dir = path.Join(t.job.tree.root.target, dir)
	return t.over(dir, func(client *usftp.Client, _ bool) error { return client.MkdirAll(dir) })
}

func (t remoteMirror) move(d *directory, name, to string) error {
	name, to = path.Join(d.target, name), path.Join(t.job.tree.root.target, to)
	return t.over(name, func(client *usftp.Client, again bool) error {
		if err := t.trusted(client, d); err != nil {
			return err
		}
		err := private.OfClient(client).Move(name, to, false)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, lookErr := client.Lstat(to); lookErr == nil { // version 3 has no status for that
			if _, gone := client.Lstat(name); again && errors.Is(gone, fs.ErrNotExist) {
				return nil
			}
			return fs.ErrExist
		}
		return err
	})
}

func (t remoteMirror) hardLink(d *directory, name, to string) error {
	name, to = path.Join(d.target, name), path.Join(t.job.tree.root.target, to)
	return t.over(name, func(client *usftp.Client, _ bool) error {
		if err := t.trusted(client, d); err != nil {
			return err
		}
		return client.Link(name, to)
	})
}
