package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp"
)

// remoteTarget is where an upload goes.
type remoteTarget struct {
	path   string      // of the target, resolved
	before fs.FileInfo // what is there, nil where nothing is
	direct bool        // neither absent nor a regular file: it is written as it is
}

// upload copies to the host.
func (r *run) upload() error {
	from, err := r.openSource()
	if err != nil {
		return err
	}
	defer from.close()
	if r.Options.Owners && from.before != nil && !ownerOf(from.before).known {
		return errNoOwner
	}
	target, err := r.findTarget()
	if err != nil {
		return err
	}
	r.result.Target = target.path
	local := from.again(r.Source)
	if r.Direction == Relay {
		local = from.againThere(r)
	}
	if r.kept(target.before, target.path, local) {
		return errKept
	}
	if err := r.notItself(target); err != nil {
		return err
	}
	if !r.dense {
		r.tellStarted()
	}
	if r.placing != nil {
		if done, err := r.settle(target); done || err != nil {
			return err
		}
	}
	f, temporary, offset := r.resumeRemote(target, from)
	if f == nil {
		r.beginAnew(target.path, target.left)
		if r.left != nil { // what a try before this one has left and nothing goes on from
			r.strays = append(r.strays, r.left.Temporary)
			r.left = nil
		}
		r.removeStrays()
		if f, temporary, err = r.createRemote(target, from); err != nil {
			return err
		}
	}
	r.result.InPlace = temporary == ""
	r.goesOnAt(offset)
	if temporary != "" {
		r.marks = r.remoteMarks(target, temporary, from)
	}
	sent := false
	defer func() {
		if !sent { // the user's Read has panicked
			r.abandonRemote(f, temporary, nil, target, from)
		}
	}()
	err = r.send(f, from, target)
	sent = true
	if err == nil {
		err = r.finishHashing()
	}
	if err == nil {
		at := temporary
		if at == "" {
			at = target.path
		}
		err = r.verify(at, nil, local)
	}
	if err == nil && temporary != "" {
		if err = r.place(temporary, target, r.result.Bytes); err != nil && !refused(err) {
			r.keep(r.remoteMarks(target, temporary, from), false)
		}
	} else if err != nil {
		r.abandonRemote(f, temporary, err, target, from)
	}
	if err == nil && r.stale != "" {
		r.Host.Client.Remove(r.stale)
	}
	return err
}

// findTarget looks at the target: a directory is entered, a symbolic link is followed to what it
// leads to, since a rename would replace the link. One round trip, and one more for a directory or
// a link.
func (r *run) findTarget() (*remoteTarget, error) {
	if r.item != nil {
		return r.item.dir.tree.target.(*remoteTree).place(r.Host.Client, r.item)
	}
	name := r.Target
	if name == "" {
		name = "."
	}
	r.name = path.Base(name)
	info, link, err := r.look(name)
	if err == nil && info.IsDir() {
		if r.Source == "" || r.Source == "-" {
			return nil, &fs.PathError{Op: "write", Path: r.Target, Err: ErrIsDirectory}
		}
		base := filepath.Base(r.Source)
		if r.Direction == Relay {
			base = path.Base(r.Source)
			if err := foreignName(base); err != nil {
				return nil, &fs.PathError{Op: "copy", Path: r.Source, Err: err}
			}
		}
		name = path.Join(name, base)
		r.result.Target, r.name = name, base
		info, link, err = r.look(name)
		if err == nil && info.IsDir() {
			return nil, &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
	} else if strings.HasSuffix(name, "/") {
		if err == nil {
			err = &fs.PathError{Op: "write", Path: name, Err: errors.New("it is not a directory")}
		}
		return nil, err
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case link:
		resolved, linkErr := r.Host.Client.RealPath(name)
		if linkErr != nil || resolved == name {
			r.note("the target is a symbolic link that cannot be followed: it is written through the link, in place")
			return &remoteTarget{path: name, before: info, direct: true}, nil
		}
		return &remoteTarget{path: resolved, before: info,
			direct: err == nil && !info.Mode().IsRegular()}, nil
	case err != nil:
		return &remoteTarget{path: name}, nil
	}
	return &remoteTarget{path: name, before: info, direct: !info.Mode().IsRegular()}, nil
}

// look looks at a path, and takes the time that it takes for a round trip.
func (r *run) look(name string) (info fs.FileInfo, link bool, err error) {
	info, link, r.trip, err = r.Host.look(r.ctx, name)
	return info, link, err
}

// createRemote creates the temporary file, or opens the target where that is asked for or has to
// be.
func (r *run) createRemote(target *remoteTarget,
	from *source) (f *usftp.File, temporary string, err error) {
	perm, denied := fs.FileMode(0o666), false
	if hasMode(from.before) {
		perm = from.before.Mode().Perm()
	}
	if !target.direct && r.mayReplace() {
		temporary = path.Join(path.Dir(target.path), temporaryName(path.Base(target.path)))
		private := perm
		if target.before != nil || r.Options.Preserve {
			private = 0o600 // until it is given the permissions that it is to have
		}
		gone := lost(r.Host.Client)
		r.noteBefore(target.path, temporary)
		f, err = r.Host.Client.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		r.temporary = temporary
		if err == nil {
			return f, temporary, nil
		}
		if r.interrupted(err) {
			if !gone { // the server may have created it
				ctx, cancel := r.cleanupContext()
				defer cancel()
				r.removeRemote(ctx, temporary)
			}
			return nil, "", err
		}
		if r.Options.Placement == Atomic || !nameRefused(err) {
			return nil, "", r.notCreated(r.explainWrite(err, path.Dir(target.path)))
		}
		if target.before == nil {
			// Nothing is there that could be harmed, and the reason is most likely the directory's:
			// the same open says it of the name that the person knows.
			f, err = r.openItself(target, perm)
			if err == nil {
				r.noTemporary(true)
			}
			return f, "", err
		}
		denied = true
	}
	if r.Options.Placement == Atomic {
		return nil, "", &fs.PathError{Op: "replace", Path: target.path,
			Err: errors.New("it is no regular file, and can only be written in place")}
	}
	f, err = r.openItself(target, perm)
	if err != nil {
		return nil, "", r.explainWrite(err, path.Dir(target.path))
	}
	if denied {
		r.noTemporary(false)
	}
	return f, "", nil
}

// send copies the contents and closes the file.
func (r *run) send(f *usftp.File, from *source, target *remoteTarget) error {
	if from.file == nil && from.before != nil {
		done, err := r.sendSmall(f, from, target)
		if done && err != nil {
			return r.explainWrite(err, path.Dir(target.path))
		}
		if done {
			return nil
		}
		if err := from.openNow(r); err != nil {
			return err
		}
	}
	if err := r.goOn(f, from.file); err != nil {
		return err
	}
	r.startHashing(from.again(r.Source))
	defer func() {
		if r.striper != nil {
			r.striper.stop()
			r.striper = nil
		}
	}()
	n, err := r.sendContents(f, from)
	n += r.result.Resumed
	r.result.Bytes = n
	if err != nil {
		return r.explainWrite(err, path.Dir(target.path))
	}
	if err := from.changed(n); err != nil {
		return err
	}
	if source, ok := from.file.(*remoteFile); ok {
		if err := r.settleDoubt(source.file, nil); err != nil {
			return ofSource(err)
		}
	}
	return r.finishRemote(f, from, target)
}

// sendContents copies the contents over as many lanes as help.
func (r *run) sendContents(f *usftp.File, from *source) (int64, error) {
	defer r.watch(func() int64 { return r.result.Resumed + f.Progress() })()
	if n, done, err := r.sendThere(f, from); done {
		return n, err
	}
	if s := r.holey(from); s != nil {
		return r.sendHoley(f, s)
	}
	if from.file == nil || !from.before.Mode().IsRegular() ||
		!r.worthStriping(from.before.Size()-r.result.Resumed) {
		return r.judge(f, func() (int64, int, error) {
			// itself: it may be one that can be taken back
			n, err := f.ReadFrom(r.passReader(r.limitReader(from.Reader)))
			return n, 1, err
		})
	}
	s := r.stripe(f, os.O_WRONLY, from.before.Size())
	r.striper = s // which send ends
	n, err := r.judge(f, func() (int64, int, error) {
		n, err := s.stripes.ReadFromAt(r.passReaderAt(from.file))
		return n, 1 + s.count(), err
	})
	r.result.Stripes = s.stripes.Joined()
	return n, err
}
