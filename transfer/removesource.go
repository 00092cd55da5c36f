package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
)

// If wanted, a source that has been copied and proved is removed, by a name in the directory that
// was named as the source: nothing put there meanwhile leads to another file. It stays if it may
// have been written to since it was read, or if it may be the copy itself: only a target that
// existed before can be its own source, under a path that does not show it.

var (
	errNoRemoval  = errors.New("a stream cannot be removed after it was copied, nor be the copy that proves it")
	errFollowing  = errors.New("links that are followed cannot be removed once what they lead to was copied")
	errMerging    = errors.New("with KeepDirLinks two directories may be one at the target, and of files of the same name one would be lost")
	errSameDir    = errors.New("the source is the copy itself, under another path")
	errOtherNames = errors.New("its copy has other names (hard links), and changes with what is copied to those")
	errRecent     = errors.New("written to just before it was read, and SFTP's times do not show a change within a second; the next run removes it")
	errFuture     = errors.New("its modification time is in the future, so SFTP's times may not show a change; set another one, or run this again after it")
)

// An origin is a source as it was when it was read.
type origin struct {
	endpoint.Info
	rel     string    // in sourceRoot
	target  string    // its copy
	began   time.Time // when reading it began
	size    int64     // of the copy
	before  bool      // the target existed before
	proved  bool      // its hash is known to be the target's
	inPlace bool      // the target was written in place

	link func() error // of a link, fails if it has changed
}

// removeSource removes a source that was copied. It is no error if it is gone already.
func (j *job) removeSource(o *origin) error {
	err := j.sources.open(j)
	if err == nil {
		err = j.arrived(o)
	}
	if err == nil && o.before {
		err = j.apart(o)
	}
	if err == nil {
		err = j.sources.Unmoved(path.Dir(o.rel))
	}
	if err == nil {
		err = o.unchanged(j)
	}
	if err == nil {
		err = j.sources.Remove(o.rel, false)
	}
	if endpoint.IsAbsent(err) {
		return nil
	}
	if err == nil && j.tree != nil {
		j.tree.count(&j.tree.sums.Removed, 1)
	}
	return err
}

// arrived fails unless the copy exists, as its size or a hash shows.
func (j *job) arrived(o *origin) error {
	there, err := j.dst.Lstat(o.target)
	switch {
	case err != nil && o.proved && endpoint.Refused(err) && !endpoint.IsAbsent(err):
		return nil
	case err != nil:
		return fmt.Errorf("its copy cannot be found: %w", notAbsent(err))
	case there.Mode.Type() != o.Mode.Type():
		return errors.New("something else is in its copy's place")
	case o.inPlace && there.Local != nil && localfs.Links(there.Local) > 1:
		return errOtherNames
	case o.Mode.IsRegular() && there.Size != o.size:
		return fmt.Errorf("its copy has %d bytes and not %d", there.Size, o.size)
	}
	return nil
}

// notAbsent hides that the copy was not found, which would count as a missing source.
func notAbsent(err error) error {
	if endpoint.IsAbsent(err) {
		return errors.New(err.Error())
	}
	return err
}

// apart fails if the source may be its own copy: then a file made beside the one appears beside the
// other, and not both are listed there.
func (j *job) apart(o *origin) error {
	name := j.copies.Token.Name(path.Base(o.rel))
	probe := j.dst.Join(filecopy.Above(j.dst, o.target), name)
	var remove func() error
	err := j.copies.Budget.Hold(j.ctx, func() (err error) {
		remove, err = touch(j.dst, probe)
		if remove != nil { // the file may exist
			return nil
		}
		return err
	})
	if remove == nil {
		return fmt.Errorf("whether it is its own copy cannot be told: %w", notAbsent(err))
	}
	defer j.untouch(remove, probe)
	_, err = j.sources.Lstat(path.Join(path.Dir(o.rel), name))
	switch {
	case err == nil:
		return j.besides(o)
	case !endpoint.IsAbsent(err):
		return err
	}
	return nil
}

// besides fails unless the directory that has both the source and its copy lists them as two.
func (j *job) besides(o *origin) error {
	source, target, met := path.Base(o.rel), j.dst.Base(o.target), make(map[string]bool)
	err := j.sources.List(path.Dir(o.rel), nil, nil, func(name string, _ endpoint.Info, _ error) bool {
		if name == source || name == target {
			met[name] = true
		}
		return len(met) < 2
	})
	if err == nil && len(met) < 2 {
		err = errSameDir
	}
	return err
}

// unchanged fails if the source has changed since it was read.
func (o *origin) unchanged(j *job) error {
	now, err := j.sources.Lstat(o.rel)
	switch {
	case err != nil:
		return err
	case now.Mode.Type() != o.Mode.Type(), o.Local != nil && !os.SameFile(o.Local, now.Local):
		return fmt.Errorf("%w: it is another file now", ErrSourceChanged)
	case o.link != nil:
		return o.link()
	case !o.Mode.IsRegular():
		return nil
	case j.src.Conn() != nil && o.HasTimes && o.Mtime.After(o.began.Add(-filecopy.RacyFor)):
		if o.Mtime.After(time.Now().Add(filecopy.RacyFor)) { // longer than the next run takes to come
			return errFuture
		}
		return errRecent
	}
	return filecopy.Unchanged(&o.Info, &now, o.size)
}

// removeCopied removes the source of a file that was copied, and returns the error to report.
func (t *fileTask) removeCopied() error {
	r := &t.Result
	o := &origin{Info: r.Origin.Info, rel: t.Rel, target: r.Target, began: t.Began, size: r.Bytes,
		before: r.Origin.Before, proved: r.Verified != 0, inPlace: r.InPlace}
	if t.entry == nil {
		o.rel = t.job.src.Base(t.Source)
	}
	err := t.job.removeSource(o)
	if t.removed, t.stays = err == nil, err != nil; t.removed {
		return nil
	}
	e := newError(t.job, t.Source, r.Target, err)
	e.op = opRemove
	return e
}

// removeSource removes an entry that the target is known to have.
func (e *entry) removeSource(before bool) {
	t := e.dir.tree
	o := &origin{Info: e.info, rel: e.rel(), target: e.target(), began: t.began, size: e.info.Size,
		before: before}
	if e.info.Mode&fs.ModeSymlink != 0 {
		o.link = func() error {
			now, err := t.readLink(e)
			if err == nil && now != e.text {
				err = fmt.Errorf("%w: it leads elsewhere now", ErrSourceChanged)
			}
			return err
		}
	}
	e.dir.touched.Store(true)
	if err := t.removeSource(o); err != nil {
		failure := newError(t.job, e.source(), e.target(), err)
		failure.op = opRemove
		e.fail(failure)
	}
}
