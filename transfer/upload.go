package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/usftp/usftp"
)

// source is what an upload reads.
type source struct {
	io.Reader
	file   sourceFile  // nil where the job brought a reader
	before fs.FileInfo // of file
	free   func()      // ends what watches over file, or what Reader holds
	listed bool        // as a regular file, in a tree whose links are not followed
}

// openSource opens the local source. A directory or a file that cannot be read fails here, before anything is asked of the host.
func (r *run) openSource() (*source, error) {
	r.size = -1
	if r.Reader != nil {
		if r.Size > 0 {
			r.size = r.Size
		}
		return &source{Reader: r.Reader}, nil
	}
	if r.Direction == Relay {
		return r.openRelay()
	}
	from := &source{listed: r.isListed()}
	if r.item != nil && r.isSmall(r.item.facts.size) {
		from.before = r.item.facts.info // it is opened when there is somewhere to put it
	} else if err := from.open(r.ctx, r.Source); err != nil {
		return nil, err
	}
	if from.before.Mode().IsRegular() {
		r.size = from.before.Size()
	}
	return from, nil
}

// open opens the file.
func (s *source) open(ctx context.Context, name string) error {
	var f *os.File
	var err error
	if s.listed {
		f, err = openListed(name)
	} else if s.before != nil && s.before.Mode().IsRegular() { // one of thousands
		f, err = os.Open(name)
	} else {
		f, err = openWaiting(ctx, func() (*os.File, error) { return os.Open(name) })
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = &fs.PathError{Op: "read", Path: name, Err: ErrIsDirectory}
	case s.listed && !info.Mode().IsRegular():
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: it is %s now", ErrSourceChanged, kindOf(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return err
	}
	s.Reader, s.file, s.before, s.free = f, f, info, func() {}
	if !info.Mode().IsRegular() {
		s.free = interruptible(ctx, f)
	}
	return nil
}

// isListed tells whether the source is a file of this machine's that was listed as what it is. Whoever may write to the tree can have put a
// link in its place since, to a file that only we can read, or a pipe for which we would wait for ever.
func (r *run) isListed() bool {
	return r.item != nil && !r.item.sought && r.item.facts.mode.IsRegular() && r.item.dir.tree.TreeOptions.Links != FollowLinks
}

// again returns what has the source read anywhere, nil where it can be read but once. Where it is open that is the same file, whatever has its
// name by then.
func (s *source) again(name string) reopen {
	if s.before == nil || !s.before.Mode().IsRegular() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		if s.file != nil {
			return s.file, func() {}, nil
		}
		return opened(os.Open(name))
	}
}

func opened(f *os.File, err error) (io.ReaderAt, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

func (s *source) close() {
	if s.free != nil {
		s.free()
	}
	if s.file != nil {
		s.file.Close()
	}
}

// changed tells whether the file was written to since it was opened.
func (s *source) changed(read int64) error {
	if s.file == nil || !s.before.Mode().IsRegular() {
		return nil
	}
	after, err := s.file.Stat()
	if err != nil {
		return err
	}
	return sameSource(s.before.Size(), after.Size(), read, s.before.ModTime(), after.ModTime())
}

// sameSource compares what was known of a source before it was read with what is known afterwards, and with what was read of it. A
// file of no size may hold data all the same, as those of /proc do.
func sameSource(before, after, read int64, timeBefore, timeAfter time.Time) error {
	switch {
	case after < before:
		return fmt.Errorf("%w: it has shrunk from %d bytes to %d", ErrSourceChanged, before, after)
	case after > before:
		return fmt.Errorf("%w: it has grown from %d bytes to %d", ErrSourceChanged, before, after)
	case before > 0 && read != before:
		return fmt.Errorf("%w: it had %d bytes and %d were read", ErrSourceChanged, before, read)
	case !timeBefore.Equal(timeAfter):
		return ErrSourceChanged
	}
	return nil
}

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
	r.removeStrays()
	f, temporary, offset := r.resumeRemote(target, from)
	if f == nil {
		r.beginAnew(target.path, target.left)
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

// findTarget looks at the target: a directory is entered, a symbolic link is followed to what it leads to, since a rename would replace
// the link. One round trip, and one more for a directory or a link.
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
		return &remoteTarget{path: resolved, before: info, direct: err == nil && !info.Mode().IsRegular()}, nil
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

// createRemote creates the temporary file, or opens the target where that is asked for or has to be.
func (r *run) createRemote(target *remoteTarget, from *source) (f *usftp.File, temporary string, err error) {
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
		if r.Options.Placement == Atomic {
			return nil, "", err
		}
		if target.before == nil {
			// Nothing is there that could be harmed, and the reason is most likely the directory's: the same open says it of the
			// name that the person knows.
			f, err = r.openItself(target, perm)
			if err == nil {
				r.noTemporary(true)
			}
			return f, "", err
		}
		denied = true
	}
	if r.Options.Placement == Atomic {
		return nil, "", &fs.PathError{Op: "replace", Path: target.path, Err: errors.New("it is no regular file, and can only be written in place")}
	}
	f, err = r.openItself(target, perm)
	if err == nil && denied {
		r.noTemporary(false)
	}
	return f, "", err
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
	if from.file == nil || !from.before.Mode().IsRegular() || !r.worthStriping(from.before.Size()-r.result.Resumed) {
		return r.judge(f, func() (int64, int, error) {
			n, err := f.ReadFrom(r.passReader(r.limitReader(from.Reader))) // itself: it may be one that can be taken back
			return n, 1, err
		})
	}
	s := r.stripe(f.Name(), os.O_WRONLY, from.before.Size())
	r.striper = s // which send ends
	n, err := r.judge(f, func() (int64, int, error) {
		n, err := f.ReadFromAt(r.passReaderAt(from.file), &s.stripes)
		return n, 1 + s.count(), err
	})
	r.result.Stripes = s.stripes.Joined()
	return n, err
}

// finishRemote makes sure that the file is whole where several handles have written it, gives it what it has besides contents, and closes it. To
// a host that works in order all of it goes out at once, and takes one round trip, in which the other handles are closed too.
func (r *run) finishRemote(f *usftp.File, from *source, target *remoteTarget) error {
	var steps []step
	if s := r.striper; s != nil {
		steps = append(steps, s.wholeStep(f, r.result.Bytes), s.stopStep())
	}
	if set := r.remoteAttrs(f, from, target); set != (usftp.NewAttrs{}) {
		steps = append(steps, func() func() error {
			setting := f.Async().SetAttrs(set)
			return func() error {
				_, err := setting.WaitContext(r.ctx)
				return r.attrsRefused(err, target)
			}
		})
	}
	if r.Options.Sync {
		steps = append(steps, func() func() error { return waits(r.ctx, f.Async().Sync()) })
	}
	steps = append(steps, func() func() error {
		closed := waits(r.ctx, f.Async().Close())
		return func() error { return r.explainWrite(closed(), path.Dir(target.path)) }
	})
	return walk(steps, r.Host.Client.WorksInOrder())
}

// attrsRefused tells whether it matters that the file cannot be given attributes.
func (r *run) attrsRefused(err error, target *remoteTarget) error {
	if err == nil || r.Options.Preserve || r.Options.Owners || !refused(err) {
		return err
	}
	if target.before != nil {
		r.note("the server does not let the new file have the permissions of the one it replaces: " + err.Error())
	}
	return nil
}

// A step asks the host for something, and returns what waits for the answer.
type step func() (wait func() error)

// waits makes the second half of a step.
func waits[T any](ctx context.Context, asked *usftp.Pending[T]) func() error {
	return func() error {
		_, err := asked.WaitContext(ctx)
		return err
	}
}

// walk takes steps one after the other as far as they succeed, or all at once; the error is that of the first that fails.
func walk(steps []step, atOnce bool) (first error) {
	var waiting []func() error
	for _, ask := range steps {
		wait := ask()
		if atOnce {
			waiting = append(waiting, wait)
		} else if err := wait(); err != nil {
			return err
		}
	}
	for _, wait := range waiting {
		if err := wait(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// lateContext is the context for what must not stop halfway: it ends cleanupTime after the job's.
func (r *run) lateContext() (context.Context, func()) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	stop := context.AfterFunc(r.ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(cleanupTime):
			cancel(context.Cause(r.ctx))
		}
	})
	return late, func() { stop(); cancel(nil) }
}

// cleanupTime bounds what is done for an interrupted job.
const cleanupTime = 5 * time.Second

// abandonRemote ends an upload that has failed. What an interruption leaves is cut to what has arrived without a gap, so that a later run
// may go on from there; after any other failure nothing is left.
func (r *run) abandonRemote(f *usftp.File, temporary string, err error, target *remoteTarget, from *source) {
	keep := r.interrupted(err) && r.result.Bytes > 0 && !r.worthless(err)
	if temporary == "" {
		r.detail = "the target was written in place and is not complete"
	} else if keep {
		r.result.LeftBehind = temporary
		r.detail = fmt.Sprintf("%d bytes of it are left in %s:%s", r.result.Bytes, r.Host.Name, temporary)
	}
	keep = keep && temporary != ""
	if keep && lost(r.Host.Client) {
		r.keep(r.remoteMarks(target, temporary, from), false)
		return
	}
	ctx, cancel := r.cleanupContext()
	defer cancel()
	if keep {
		f := f.WithContext(ctx)
		cut := f.Truncate(r.result.Bytes)
		r.keep(r.remoteMarks(target, temporary, from), cut == nil && f.Sync() == nil)
	}
	f.Async().Close().WaitContext(ctx)
	if temporary != "" && !keep {
		r.removeRemote(ctx, temporary)
	}
}

// cleanupContext is the context of what is done for a job that has ended.
func (r *run) cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), cleanupTime)
}

// removeRemote removes a temporary file that holds nothing of use, or says that it is there.
func (r *run) removeRemote(ctx context.Context, temporary string) {
	if err := r.Host.Client.WithContext(ctx).Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.result.LeftBehind = temporary
		r.detail = fmt.Sprintf("the temporary file %s:%s could not be removed", r.Host.Name, temporary)
	}
}
