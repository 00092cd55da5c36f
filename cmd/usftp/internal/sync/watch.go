package sync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

const (
	// A round begins once no change has come for debounce, or longestWait after the first change.
	debounce    = 200 * time.Millisecond
	longestWait = 2 * time.Second

	// A failed round is followed by another one, after a wait that grows from firstRetry to
	// longestRetry.
	firstRetry   = 500 * time.Millisecond
	longestRetry = 30 * time.Second

	// Everything is compared checkLost after the host was lost.
	checkLost = time.Minute

	// margin makes up for times being whole seconds: a file modified within margin before a round, or
	// later, may change again without a new mtime, and is copied again by the next round.
	margin = 2 * time.Second

	// mostChanges is how many changes are remembered one by one; after more, everything is compared.
	mostChanges = 10_000

	// queuedEvents is how many events wait here, besides those in the system's own queue.
	queuedEvents = 4096
)

// rootChecked is how often the source is checked: no event reports an unmount. Tests change it.
var rootChecked = 5 * time.Second

// A watcher collects changes in a local directory.
type watcher struct {
	system *fsnotify.Watcher
	events <-chan fsnotify.Event // from system
	lost   <-chan struct{}       // the system could not queue all events
	named  string                // as the user named root, perhaps by a link
	root   string
	is     fs.FileInfo // root, when it was first watched

	within transfer.SyncWithin // the changes
	// a directory was moved, so one found meanwhile may have no watch
	moved bool
	// directories that were to be watched since this was last checked
	fresh []string
	// unreadable directories, which are watched as soon as they become readable
	unreadable map[string]bool

	check  time.Time // when to compare everything since the host was lost; or zero
	all    bool      // compare everything
	due    time.Time // but not before that
	resume time.Time // the next attempt, while the host cannot be reached
}

// newWatcher makes the system report changes in a directory. lost is of overflows.
func newWatcher(named string, system *fsnotify.Watcher, lost <-chan struct{}) (*watcher, error) {
	real, err := filepath.EvalSymlinks(named)
	if err != nil {
		return nil, err
	}
	is, err := os.Stat(real)
	if err != nil {
		return nil, err
	}
	w := &watcher{system: system, events: system.Events, lost: lost, named: named, root: real,
		is: is, unreadable: make(map[string]bool)}
	w.forget()
	w.everything(0)
	return w, w.add(real)
}

// overflows reports when events were lost. It takes every error at once: package fsnotify holds its
// lock while it waits for that, as for a directory that was moved away and deleted, and whoever
// adds or removes a watch waits for the lock.
func overflows(errs <-chan error) <-chan struct{} {
	lost := make(chan struct{}, 1)
	go func() {
		for err := range errs {
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				select {
				case lost <- struct{}{}:
				default: // everything will be compared after this one, too
				}
			}
		}
	}()
	return lost
}

// forget drops the collected changes.
func (w *watcher) forget() { w.within = transfer.SyncWithin{Dirs: make(map[string]bool)} }

// everything schedules a comparison of everything, after a wait.
func (w *watcher) everything(after time.Duration) { w.all, w.due = true, time.Now().Add(after) }

// toCheck reports whether everything will be compared since the host was lost.
func (w *watcher) toCheck() bool { return !w.check.IsZero() }

// again schedules another comparison of the entries that a round compared, after a wait.
func (w *watcher) again(round *transfer.SyncWithin, after time.Duration) {
	if round == nil {
		w.everything(after)
		return
	}
	w.resume = time.Now().Add(after)
	maps.Copy(w.within.Dirs, round.Dirs)
	w.within.Trees = append(w.within.Trees, round.Trees...)
}

// startOver replaces all watches and schedules a comparison of everything, after events were lost:
// directories moved in the meantime are still watched under their old names.
func (w *watcher) startOver() error {
	w.forget()
	w.moved, w.fresh = false, nil
	w.everything(debounce)
	for _, name := range w.system.WatchList() {
		w.system.Remove(name)
	}
	return w.add(w.root)
}

// isUnwatched reports whether a directory that was to be watched is not. If it had been moved, and
// its move was not reported yet, it was only watched under its old name, and is no longer: package
// fsnotify ends that watch by itself when it learns of the move.
func (w *watcher) isUnwatched() bool {
	if len(w.fresh) == 0 {
		return false
	}
	watched := make(map[string]bool)
	for _, name := range w.system.WatchList() {
		watched[name] = true
	}
	fresh := w.fresh
	w.fresh = nil
	return slices.ContainsFunc(fresh, func(name string) bool {
		info, err := os.Lstat(name)
		return !watched[name] && err == nil && info.IsDir()
	})
}

// watchMoved watches directories that have lost their watch by a move. A directory in a moved one
// is watched under its old name until the move is reported, and cannot be watched under the new one
// as well. When the move is reported the watch ends, even if the directory was found under its new
// name before that.
func (w *watcher) watchMoved() error {
	w.moved = false
	before := make(map[string]bool)
	for _, name := range w.system.WatchList() {
		before[name] = true
	}
	if err := w.add(w.root); err != nil {
		return err
	}
	for _, name := range w.system.WatchList() {
		if rel, ok := w.rel(name); ok && !before[name] {
			w.within.Trees = append(w.within.Trees, rel)
		}
	}
	return nil
}

// add watches a directory and everything below it. It lists each directory after it has started to
// watch it, to miss no change.
func (w *watcher) add(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() {
			return nil
		}
		if err != nil && name != w.root { // the sync will report unreadable entries
			return nil
		}
		if err == nil {
			if err = w.system.Add(name); err == nil {
				w.fresh = append(w.fresh, name)
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission) && name != w.root:
			w.unreadable[name] = true // the sync reports it, unless it is excluded
			return fs.SkipDir
		case errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("cannot watch %s: %w", name, err)
		case err != nil:
			return fmt.Errorf("cannot watch %s: %w (on Linux, fs.inotify.max_user_watches limits how many directories can be watched)", name, err)
		}
		return nil
	})
}

// rel returns a path relative to the root.
func (w *watcher) rel(name string) (string, bool) {
	rel, err := filepath.Rel(w.root, name)
	rel = filepath.ToSlash(rel)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func gone(name string) error {
	return fmt.Errorf("%s is gone: nothing is watched any more", name)
}

// stands returns an error unless the source is still the watched directory.
func (w *watcher) stands() error {
	for _, name := range []string{w.root, w.named} {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return gone(name)
		case err == nil && !os.SameFile(info, w.is):
			return fmt.Errorf("%s is another directory now: nothing is watched any more", name)
		}
	}
	return nil // another error may pass, and a sync reports it
}

// take records a change.
func (w *watcher) take(e fsnotify.Event) error {
	rel, ok := w.rel(e.Name)
	if !ok {
		return nil
	}
	if rel == "." {
		if e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
			return gone(w.root)
		}
		w.within.Dirs[rel] = true
		return nil
	}
	w.within.Dirs[path.Dir(rel)] = true
	appeared := false // a directory that needs a watch
	switch {
	case e.Has(fsnotify.Chmod):
		if info, err := os.Lstat(e.Name); err == nil && info.IsDir() {
			w.within.Dirs[rel] = true // its own attributes are set when its entries are compared
		}
		appeared = w.unreadable[e.Name]
		delete(w.unreadable, e.Name)
	case e.Has(fsnotify.Rename):
		// If it was a directory, the directories in it are being watched under their old names.
		for _, name := range w.system.WatchList() {
			if name == e.Name || strings.HasPrefix(name, e.Name+string(filepath.Separator)) {
				w.system.Remove(name)
				w.moved = true
			}
		}
	case e.Has(fsnotify.Create):
		if name := oldName(e); name != "" {
			if old, ok := w.rel(name); ok {
				w.within.Renames = append(w.within.Renames, transfer.SyncRename{From: old, To: rel})
			}
		}
		info, err := os.Lstat(e.Name)
		appeared = err == nil && info.IsDir()
	}
	if appeared {
		w.within.Trees = append(w.within.Trees, rel)
		if err := w.add(e.Name); err != nil {
			return err
		}
	}
	if len(w.within.Dirs)+len(w.within.Trees)+len(w.within.Renames) > mostChanges {
		w.forget()
		w.everything(debounce)
	}
	return nil
}

// oldName returns a file's name before it got the name that an event reports, or "" if it is new.
// Only the event's text has it. Where the system does not report it, a rename is a deletion and a
// new file. Two such events in a row prove nothing: one directory may have been moved elsewhere and
// another one made.
func oldName(e fsnotify.Event) string {
	_, text, _ := strings.Cut(e.String(), `"`)
	name, err := strconv.QuotedPrefix(`"` + text)
	if err != nil {
		return ""
	}
	old, found := strings.CutPrefix(text[len(name)-1:], " ← ")
	if old, err = strconv.Unquote(old); !found || err != nil {
		return ""
	}
	return old
}

// wait waits until there is work: changes have come and no more follow, or everything is to be
// compared, for which within is nil.
func (w *watcher) wait(ctx context.Context) (within *transfer.SyncWithin, err error) {
	if err := w.collect(ctx); err != nil {
		return nil, err
	}
	if w.isUnwatched() || w.moved {
		if err := w.watchMoved(); err != nil {
			return nil, err
		}
	}
	changed := w.within
	w.forget()
	if now := time.Now(); w.all && !now.Before(w.due) || w.toCheck() && !now.Before(w.check) {
		w.all, w.check = false, time.Time{}
		return nil, nil
	}
	return &changed, nil
}

func (w *watcher) collect(ctx context.Context) error {
	var due, quiet, latest <-chan time.Time
	restart := func() {
		quiet = time.After(max(debounce, time.Until(w.resume)))
		if latest == nil {
			latest = time.After(max(longestWait, time.Until(w.resume)))
		}
	}
	if len(w.within.Dirs)+len(w.within.Trees) > 0 {
		restart()
	}
	look := time.NewTicker(rootChecked)
	defer look.Stop()
	for {
		if w.all {
			due = time.After(time.Until(w.due))
		} else if w.toCheck() {
			due = time.After(time.Until(w.check))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look.C:
			if err := w.stands(); err != nil {
				return err
			}
		case <-due:
			return nil
		case <-latest:
			return nil
		case <-quiet:
			return nil
		case <-w.lost:
			if err := w.startOver(); err != nil {
				return err
			}
		case e, ok := <-w.events:
			if !ok {
				return fsnotify.ErrClosed
			}
			if err := w.take(e); err != nil {
				return err
			}
			restart()
		}
	}
}

// watch syncs, and syncs again after each change, until its context ends or the source is gone.
// sync runs one round.
func watch(ctx context.Context, root string, options transfer.SyncOptions,
	sync func(transfer.SyncOptions) (transfer.Summary, error), say func(string)) error {
	system, err := fsnotify.NewBufferedWatcher(queuedEvents)
	if err != nil {
		return err
	}
	defer system.Close()
	w, err := newWatcher(root, system, overflows(system.Errors))
	if err != nil {
		return err
	}
	return w.run(ctx, options, sync, say)
}

func (w *watcher) run(ctx context.Context, options transfer.SyncOptions,
	sync func(transfer.SyncOptions) (transfer.Summary, error), say func(string)) error {
	options.Backoff, options.LockOwner = backoff, rand.Text()
	pause := time.Duration(0)
	last := time.Time{} // start of the last successful round
	files := int64(0)
	vanished := 0 // consecutive rounds in which a file vanished
	told := false // that it watches
	for first := true; ; first = false {
		within, err := w.wait(ctx)
		if err != nil {
			return err
		}
		round := options
		if !last.IsZero() {
			round.Since = last.Add(-margin)
		}
		if round.Within = within; within != nil && round.MaxDelete == 0 {
			round.MaxDelete = max(10, files/2) // half of everything, not of the changes
		}
		if err := w.stands(); err != nil {
			return err
		}
		began := time.Now()
		summary, err := sync(round)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if within == nil {
			files = summary.PlannedFiles
		}
		switch refused := errors.Is(err, transfer.ErrDeletionRefused); {
		case err == nil || refused:
			if refused && within != nil {
				w.everything(0) // this shows how many files there are
			}
			if !w.all { // otherwise there may be changes that a failed round has not copied
				pause, last = 0, began
			}
			if !told {
				told = true
				say("watching " + w.root)
			}
		case first && ui.CodeOf(err) == ui.ExitFailed && !isPartial(err):
			return err // wrong operands stay wrong
		case errors.Is(err, transfer.ErrVanished):
			// Everything was copied, but nothing was deleted. An entry that vanishes in every round, as a
			// broken link does if links are followed, must not keep us busy.
			w.again(within, debounce<<min(vanished, 3))
			vanished++
			continue
		default:
			pause = min(max(firstRetry, 2*pause), longestRetry)
			if ui.CodeOf(err) != ui.ExitNoHost {
				w.everything(pause)
				if !isPartial(err) {
					w.resume = w.due
				}
				say(fmt.Sprintf("comparing everything again in %v", pause))
				break
			}
			// Nothing can be done without the host. The next round has to cover the entries of this one, and
			// the changes since. Everything else was equal before; but a host that crashed may have lost
			// some of it.
			w.again(within, pause)
			w.resume = time.Now().Add(pause)
			w.check = time.Now().Add(checkLost)
			say(fmt.Sprintf("trying again in %v", pause))
		}
		vanished = 0
	}
}

// backoff returns the wait before a connection is replaced: short at first, because changes are
// waiting.
func backoff(attempt int) time.Duration {
	return min(firstRetry/2<<min(attempt-1, 10), longestRetry)
}

// isPartial reports whether a sync got as far as copying.
func isPartial(err error) bool {
	return errors.As(err, new(*transfer.TreeError))
}
