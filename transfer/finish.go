package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// finishRemote makes sure that the file is whole where several handles have written it, gives it
// what it has besides contents, and closes it. To a host that works in order all of it goes out at
// once, and takes one round trip, in which the other handles are closed too.
func (r *run) finishRemote(f *usftp.File, from *source, target *remoteTarget) error {
	var steps []step
	if s := r.striper; s != nil {
		// before anything is set: what each connection is asked comes in an order of its own
		if err := s.prove(); err != nil {
			return err
		}
		steps = append(steps, s.part)
	}
	if set := r.remoteAttrs(f, from, target); set != (usftp.NewAttrs{}) {
		steps = append(steps, func() func() error {
			given := waits(r.ctx, f.Async().SetAttrs(set))
			return func() error { return r.attrsRefused(given(), target) }
		})
	}
	if r.Options.Sync {
		steps = append(steps, func() func() error { return waits(r.ctx, f.Async().Sync()) })
	}
	steps = append(steps, func() func() error {
		closed := waits(r.ctx, f.Async().Close())
		return func() error { return r.explainWrite(closed(), path.Dir(target.path)) }
	})
	return walk(steps, private.OfClient(r.Host.Client).WorksInOrder())
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

// walk takes steps one after the other as far as they succeed, or all at once; the error is that of
// the first that fails.
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

// abandonRemote ends an upload that has failed. What an interruption leaves is cut to what has
// arrived without a gap, so that a later run may go on from there; after any other failure nothing
// is left.
func (r *run) abandonRemote(f *usftp.File, temporary string, err error, target *remoteTarget,
	from *source) {
	keep := r.interrupted(err) && r.result.Bytes > 0 && !r.worthless(err) && r.mayGoOn(target.path)
	if temporary == "" {
		r.detail = "the target was written in place and is not complete"
	} else if keep {
		r.result.LeftBehind = temporary
		r.detail = fmt.Sprintf("%d bytes of it are left in %s:%s", r.result.Bytes, r.Host.Name,
			temporary)
	}
	keep = keep && temporary != ""
	if keep && lost(r.Host.Client) {
		r.keep(r.remoteMarks(target, temporary, from), false)
		return
	}
	if temporary != "" && lost(r.Host.Client) {
		r.result.LeftBehind = temporary
		r.detail = fmt.Sprintf("%d bytes of it are left in %s:%s", r.result.Bytes, r.Host.Name,
			temporary)
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

// mayGoOn reports whether anybody could go on from what a try leaves: a later run, which finds it in
// the journal, or the next try of this one. Small files of a tree begin anew in any case.
func (r *run) mayGoOn(target string) bool {
	host := r.line.current()
	renews := host.renews(&r.Options)
	if r.from != nil {
		from := r.from.current()
		renews = renews || from.renews(&r.Options)
	}
	return !r.isSmall(r.size) &&
		(r.journalFile(target) != "" || r.ctx.Err() == nil && renews)
}

// cleanupContext is the context of what is done for a job that has ended.
func (r *run) cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.ctx), cleanupTime)
}

// removeRemote removes a temporary file that holds nothing of use, or says that it is there.
func (r *run) removeRemote(ctx context.Context, temporary string) {
	if err := r.Host.Client.WithContext(ctx).Remove(temporary); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		r.result.LeftBehind = temporary
		r.detail = fmt.Sprintf("the temporary file %s:%s could not be removed", r.Host.Name,
			temporary)
	}
}
