package sync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/transfer"
)

const (
	// A round begins when nothing has changed for settleTime, or longestWait after the first
	// change.
	settleTime  = 200 * time.Millisecond
	longestWait = 2 * time.Second

	// After a failed round everything is compared again, after a wait that grows from firstRetry to
	// longestRetry.
	firstRetry   = 500 * time.Millisecond
	longestRetry = 30 * time.Second

	// margin is how long before the start of a round a file must have been modified for its mtime
	// to show later changes: times are whole seconds.
	margin = 2 * time.Second

	// mostChanges is how many changes are remembered one by one; after more, everything is
	// compared.
	mostChanges = 10_000
)

// A watcher collects changes in a local directory.
type watcher struct {
	events *fsnotify.Watcher
	root   string

	all     bool // anything may have changed
	within  transfer.SyncWithin
	renamed string // the old name of what may be getting a new one, or ""
}

func newWatcher(root string) (*watcher, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	events, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return nil, err
	}
	w := &watcher{events: events, root: real}
	w.forget()
	w.all = true
	if err := w.add(real); err != nil {
		events.Close()
		return nil, err
	}
	return w, nil
}

// forget drops the collected changes and starts over.
func (w *watcher) forget() {
	w.all, w.within = false, transfer.SyncWithin{Dirs: make(map[string]bool)}
}

// add watches a directory and everything below it. It lists each directory after it has started to
// watch it, so that nothing is missed.
func (w *watcher) add(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() {
			return nil
		}
		if err != nil && name != w.root { // the sync will report what it cannot read
			return nil
		}
		if err == nil {
			err = w.events.Add(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
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

// take records a change.
func (w *watcher) take(e fsnotify.Event) error {
	old := w.renamed
	w.renamed = ""
	rel, ok := w.rel(e.Name)
	if !ok {
		return nil
	}
	if rel == "." {
		if e.Op&(fsnotify.Remove|fsnotify.Rename) != 0 {
			return fmt.Errorf("%s is gone: nothing is watched any more", w.root)
		}
		w.within.Dirs[rel] = true
		return nil
	}
	w.within.Dirs[path.Dir(rel)] = true
	switch {
	case e.Has(fsnotify.Rename):
		w.renamed = rel
		// If it was a directory, the directories in it are being watched under their old names.
		for _, name := range w.events.WatchList() {
			if name == e.Name || strings.HasPrefix(name, e.Name+string(filepath.Separator)) {
				w.events.Remove(name)
			}
		}
		if old != "" && old != rel {
			w.renamed = ""
		}
	case e.Has(fsnotify.Create):
		if old != "" { // immediately after the other: it may be a rename
			w.within.Renames = append(w.within.Renames, transfer.SyncRename{From: old, To: rel})
		}
		info, err := os.Lstat(e.Name)
		if err != nil || !info.IsDir() {
			return nil
		}
		w.within.Trees = append(w.within.Trees, rel)
		return w.add(e.Name)
	}
	if len(w.within.Dirs)+len(w.within.Trees)+len(w.within.Renames) > mostChanges {
		w.forget()
		w.all = true
	}
	return nil
}

// wait waits for changes, and then until they have settled.
func (w *watcher) wait(ctx context.Context, pause time.Duration) error {
	var settled, latest <-chan time.Time
	if w.all {
		settled, latest = time.After(pause), time.After(max(longestWait, pause))
	} else if len(w.within.Dirs) > 0 {
		settled, latest = time.After(settleTime), time.After(longestWait)
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-latest:
			return nil
		case <-settled:
			return nil
		case err, ok := <-w.events.Errors:
			if !ok {
				return fsnotify.ErrClosed
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.forget()
				w.all = true
				if err := w.add(w.root); err != nil {
					return err
				}
			}
			settled = time.After(settleTime)
		case e, ok := <-w.events.Events:
			if !ok {
				return fsnotify.ErrClosed
			}
			if err := w.take(e); err != nil {
				return err
			}
			if settled = time.After(max(settleTime, pause)); latest == nil {
				latest = time.After(max(longestWait, pause))
			}
		}
	}
}

// watch syncs, and again whenever something has changed, until its context ends or the source is
// gone. sync runs one round; more is called after it.
func watch(ctx context.Context, root string, options transfer.SyncOptions,
	sync func(transfer.SyncOptions) (transfer.Summary, error), say func(string)) error {
	w, err := newWatcher(root)
	if err != nil {
		return err
	}
	defer w.events.Close()
	options.Backoff = backoff
	pause := time.Duration(0)
	last := time.Time{} // start of the last successful round
	files := int64(0)
	for first := true; ; first = false {
		if first {
			w.forget()
			w.all = true
		} else if err := w.wait(ctx, pause); err != nil {
			return err
		}
		round := options
		round.Since = options.Since
		if !last.IsZero() {
			round.Since = last.Add(-margin)
		}
		if all := w.all; !all {
			within := w.within
			round.Within = &within
			if round.MaxDelete == 0 { // half of everything, not of what has changed
				round.MaxDelete = max(10, files/2)
			}
		}
		w.forget()
		began := time.Now()
		summary, err := sync(round)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if round.Within == nil {
			files = summary.PlannedFiles
		}
		refused := errors.Is(err, transfer.ErrDeletionRefused)
		switch {
		case err == nil || refused:
			pause, last = 0, began
			w.all = refused && round.Within != nil // a full comparison shows how many files
			if first {
				say("watching " + root)
			}
		case first && ui.CodeOf(err) == ui.ExitFailed && !isPartial(err):
			return err // wrong operands stay wrong
		default:
			pause = min(max(firstRetry, 2*pause), longestRetry)
			w.all = true
			say(fmt.Sprintf("comparing everything again in %v", pause))
		}
	}
}

// backoff returns the wait before a connection is replaced: short at first, since changes are
// waiting.
func backoff(attempt int) time.Duration {
	return min(firstRetry/2<<min(attempt-1, 10), longestRetry)
}

// isPartial reports whether a sync got as far as copying.
func isPartial(err error) bool {
	var tree *transfer.TreeError
	return errors.As(err, &tree)
}
