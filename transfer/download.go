package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp"
)

// download copies from the host.
func (r *run) download() error {
	r.size = -1
	if r.item != nil && r.Options.Resume && !r.item.dir.fresh {
		target, err := r.itemTarget()
		if err != nil {
			return err
		}
		keep := r.kept(target.before, r.Source, target.again(target.name))
		target.close()
		if keep {
			return errKept
		}
	}
	if r.item != nil && r.isSmall(r.item.facts.size) {
		if done, err := r.downloadSmall(); done {
			return err
		}
	}
	return r.downloadWhole()
}

// downloadWhole is download for a file that does not travel in one piece. A function of its own,
// since thousands of small ones wait in the one above.
func (r *run) downloadWhole() error {
	f, trip, err := r.Host.openRead(r.ctx, r.Source)
	if err != nil {
		return err
	}
	r.trip = trip
	defer f.Close()
	before, err := r.checkSource(f)
	if err != nil {
		return err
	}
	r.doubts(r.Host.Client, before)
	if r.Writer != nil {
		return r.stream(f, before)
	}
	target, err := r.findLocal()
	if target != nil {
		r.result.Target = target.path
	}
	if err != nil {
		return err
	}
	defer target.close()
	r.tellStarted()
	if r.goesOnAt(r.resumeLocal(target, f, before)); r.result.Resumed == 0 {
		r.beginAnew(target.path, target.left)
		err = r.createLocal(target, before)
	} else {
		err = r.goOn(f, target.file)
	}
	if err != nil {
		if target.file != nil {
			target.file.Close()
		}
		return err
	}
	r.result.InPlace = target.temporary == ""
	if !r.result.InPlace {
		r.marks = r.localMarks(target, before)
	}
	if target.again(target.written()) == nil {
		r.rememberDoubt()
	}
	r.startHashing(target.again(target.written()))
	if err = r.receive(f, target.file, before); err == nil {
		err = r.finishHashing()
	}
	if err == nil {
		err = r.verify(r.Source, f, target.again(target.written()))
	}
	if err == nil && !r.Options.Verify { // which has compared all of it
		err = r.settleDoubt(f, target.again(target.written()))
	}
	if err == nil {
		err = r.finishLocal(target, before)
	}
	if err != nil {
		r.abandonLocal(target, err, before)
	} else if r.stale != "" {
		target.root.Remove(filepath.Base(r.stale))
	}
	return err
}

// findLocal looks at the target.
func (r *run) findLocal() (*localTarget, error) {
	if r.item != nil {
		return r.itemTarget()
	}
	base, err := localName(r.Source)
	if err != nil {
		return nil, err
	}
	t, err := findLocal(r.Target, base)
	if t != nil {
		r.name = t.called
	}
	return t, err
}

// checkSource looks at what the server said of the file, nil where it said nothing.
func (r *run) checkSource(f *usftp.File) (*usftp.FileStat, error) {
	if !f.AttrsCached() {
		return nil, nil
	}
	before := f.FileStat()
	if before.HasMode() && before.FileMode().IsDir() {
		return nil, &fs.PathError{Op: "read", Path: r.Source, Err: ErrIsDirectory}
	}
	if before.HasSize() && int64(before.Size) >= 0 && before.FileMode().IsRegular() {
		r.size = int64(before.Size)
	}
	return before, nil
}

// stream copies to the job's writer.
func (r *run) stream(f *usftp.File, before *usftp.FileStat) error {
	if err := r.pourOn(f, before); err != nil {
		return err
	}
	r.tellStarted()
	r.name = path.Base(r.Source)
	r.rememberDoubt()
	r.startHashing(nil)
	err := r.receive(f, r.Writer, before)
	if err == nil {
		err = r.finishHashing()
	}
	if err == nil {
		err = r.verify(r.Source, f, nil)
	}
	if err == nil && !r.Options.Verify {
		err = r.settleDoubt(f, nil)
	}
	if err != nil && r.result.Bytes > 0 {
		r.detail = fmt.Sprintf("%d bytes of it have been written", r.result.Bytes)
	}
	return err
}

// pourOn goes on behind what an earlier try has given to the job's writer, where the source is
// still the same.
func (r *run) pourOn(f *usftp.File, before *usftp.FileStat) error {
	known := before != nil && before.HasSize() && before.HasTimes()
	if r.reached == 0 {
		if r.poured = nil; known {
			r.poured = before
		}
		return nil
	}
	if !known || before.Size != r.poured.Size || !before.ModTime().Equal(r.poured.ModTime()) {
		r.result.Bytes = r.reached
		r.detail = fmt.Sprintf("%d bytes of it have been written", r.reached)
		return ErrSourceChanged
	}
	r.result.Resumed = r.reached
	_, err := f.Seek(r.reached, io.SeekStart)
	return err
}

// receive copies the contents, and makes sure that they are of one state of the file.
func (r *run) receive(f *usftp.File, sink io.Writer, before *usftp.FileStat) error {
	n, err := r.receiveContents(f, sink, before)
	n += r.result.Resumed
	r.result.Bytes = n
	if err != nil {
		return err
	}
	if before == nil || !before.HasSize() || !before.FileMode().IsRegular() {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) || !r.interrupted(err) {
			// A server without FSTAT: there is nothing to compare with but what it has said before.
			return sameSource(int64(before.Size), int64(before.Size), n, before.ModTime(),
				before.ModTime())
		}
		return err
	}
	after := info.Sys().(*usftp.FileStat)
	return sameSource(int64(before.Size), int64(after.Size), n, before.ModTime(), after.ModTime())
}

// receiveContents copies the contents over as many lanes as help.
func (r *run) receiveContents(f *usftp.File, sink io.Writer,
	before *usftp.FileStat) (int64, error) {
	defer r.watch(func() int64 { return r.result.Resumed + f.Progress() })()
	file, ok := sink.(*os.File)
	if ok && r.Writer == nil && r.mayHaveHoles(file) {
		return r.receiveSparse(f, file, before)
	}
	// what is hashed and cannot be read again
	inOrder := r.passing != nil && r.passing.open == nil || r.doubt != nil && r.doubt.sum != nil
	if !ok || inOrder || r.Writer != nil || before == nil || !before.FileMode().IsRegular() ||
		!r.worthStriping(r.size-r.result.Resumed) {
		return r.judge(f, func() (int64, int, error) {
			n, err := f.WriteTo(r.boundWriter(r.passWriter(r.doubtWriter(r.limitWriter(sink)))))
			return n, 1, err
		})
	}
	s := r.stripe(f, os.O_RDONLY, r.size)
	defer s.stop()
	n, err := r.judge(f, func() (int64, int, error) {
		n, err := s.stripes.WriteToAt(r.boundWriterAt(r.passWriterAt(file, f)))
		return n, 1 + s.count(), err
	})
	r.result.Stripes = s.stripes.Joined()
	if err == nil {
		err = s.prove()
	}
	return n, err
}

// localName returns the last element of a remote path, as a name for a local file. A path that the
// server has sent, in a listing, is a stranger's word: a name that leads anywhere else is refused.
func localName(remote string) (string, error) {
	base := path.Base(strings.TrimRight(remote, "/"))
	err := localBase(base)
	if base == "." || base == ".." || base == "/" || strings.IndexByte(base, 0) >= 0 {
		err = ErrBadName
	}
	if err != nil {
		return "", &fs.PathError{Op: "copy", Path: remote, Err: err}
	}
	return base, nil
}

// finishLocal ends a download.
func (r *run) finishLocal(t *localTarget, before *usftp.FileStat) error {
	return r.finishFile(t, statFacts(before))
}

// finishFile gives the file what it has besides contents, and its name.
func (r *run) finishFile(t *localTarget, source facts) error {
	if err := r.Options.chown(source.owner, t.file.Chown); err != nil {
		return err
	}
	if r.Options.Preserve && source.hasMode {
		if err := t.file.Chmod(source.mode.Perm()); err != nil {
			return err
		}
	} else if t.before != nil && t.temporary != "" {
		mode := t.before.Mode()
		if r.Options.Owners {
			mode &^= fs.ModeSetuid | fs.ModeSetgid
		} else if err := t.keepOwner(); err != nil {
			r.note("the new file cannot have the owner of the one it replaces: " + err.Error())
			mode &^= fs.ModeSetuid | fs.ModeSetgid // it would run as somebody who never said so
		}
		if err := t.file.Chmod(mode); err != nil {
			return err
		}
	}
	if r.Options.Sync {
		if err := t.file.Sync(); err != nil {
			return err
		}
	}
	if err := t.file.Close(); err != nil { // NFS and the like store, or fail to, only now
		return err
	}
	name := t.written()
	if (r.Options.Preserve || r.item != nil) && source.hasTimes {
		atime, mtime := source.localTimes()
		if err := t.root.Chtimes(name, atime, mtime); err != nil &&
			r.Options.Preserve {
			return err
		}
	}
	if t.temporary == "" {
		return nil
	}
	if err := t.root.Rename(t.temporary, t.name); err != nil {
		r.result.LeftBehind = t.join(t.temporary)
		r.detail = "all of the data is in " + r.result.LeftBehind
		// its directory was removed, most likely
		if _, lookErr := t.root.Lstat(t.temporary); errors.Is(lookErr, fs.ErrNotExist) {
			r.result.LeftBehind = ""
			r.detail = "all of the data was in " + t.join(t.temporary) + ", which is no more"
		}
		return err
	}
	return nil
}

// cutLocal cuts what was written to what came without a gap.
func (r *run) cutLocal(t *localTarget) bool { return t.file.Truncate(r.result.Bytes) == nil }

// abandonLocal ends a download that has failed.
func (r *run) abandonLocal(t *localTarget, err error, before *usftp.FileStat) {
	defer t.file.Close()
	switch {
	case r.result.LeftBehind != "": // the rename failed
	case t.temporary == "":
		r.detail = "the target was written in place and is not complete"
	case r.mayGoOn(t.path) && r.interrupted(err) && r.result.Bytes > 0 && !r.worthless(err) &&
		r.cutLocal(t):
		r.result.LeftBehind = t.join(t.temporary)
		r.detail = fmt.Sprintf("%d bytes of it are left in %s", r.result.Bytes, r.result.LeftBehind)
		r.keep(r.localMarks(t, before), t.file.Sync() == nil)
	default:
		t.root.Remove(t.temporary)
	}
}
