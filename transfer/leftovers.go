package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/localfs"
)

// leftovers tracks the temporary files that runs of a tree copy leave behind: too many to record
// one by one. All names of a run contain its token, and the journal records the token before the
// run makes the first. The next run of the same copy removes them from each directory of the
// target, even from one that the source no longer has or that is now excluded, whether it copies to
// the same place or, since that is a directory by now, into it.
//
// A run's note is locked while the run is alive, so nobody removes the files of a run in progress.
type leftovers struct {
	made  treeMark                              // records that this copy makes its target, or ""
	own   *runNote                              // nil without a journal
	dead  []*runNote                            // notes of runs that have ended
	roots map[string]map[localfs.TempToken]bool // the dead runs' targets and tokens
	// marks of dead runs' files, by temporary file
	marks map[string]string
	root  string // this run's target, as notes name it

	some   atomic.Bool  // this run left something, or may have
	unseen atomic.Bool  // some leftovers of dead runs were not found or not removed
	count  atomic.Int64 // leftovers that were not reported one by one
	looked atomic.Int64 // swept directories that the source does not have
	names  atomic.Int64 // names of directories to sweep, in memory

	sweepers chan struct{} // limits the goroutines that sweep besides the walkers
	listings chan struct{} // limits the target directories listed at once

	mu        sync.Mutex
	continues map[string]leftover // leftovers that files may continue from
}

// A leftover is a temporary file in a directory below a root.
type leftover struct{ root, rel, name string }

// A runNote is a run's file in the journal.
type runNote struct {
	file  *os.File
	token localfs.TempToken
	Roots []string `json:"roots"` // the directories the run copied to, as journal.Text
}

const (
	runSuffix = ".run.json"

	// mostDead limits the dead runs cleaned up after at once: each keeps a file open.
	mostDead = 64

	// mostSwept limits the directories listed at once for that, where the target allows it.
	mostSwept = 128
)

// mostNames limits the names of directories to sweep that are kept in memory: a hostile host could
// list any number. The rest is left to a later run. It is a variable for tests.
var mostNames int64 = 1 << 17

// openNotes records this run's token, and finds the notes of earlier runs of the same copy.
func (t *tree) openNotes() {
	l := &t.leftovers
	key := t.copies.JournalKey("tree", t.route.Source, t.route.Target)
	if key == "" {
		return
	}
	prefix := strings.TrimSuffix(key, journal.TreeSuffix) + "."
	if os.MkdirAll(t.options.Journal, 0o700) != nil {
		return
	}
	_, l.root, _ = t.dst.Identity(t.root.target)
	if l.own = openRunNote(prefix + string(t.copies.Token) + runSuffix); l.own == nil {
		return
	}
	l.own.Roots = append(l.own.Roots, journal.Text(l.root))
	l.own.save()
	if !l.own.isLocked() { // without locks nothing shows whether another run has ended
		return
	}
	entries, _ := os.ReadDir(t.options.Journal)
	for _, e := range entries {
		name := filepath.Join(t.options.Journal, e.Name())
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, runSuffix) ||
			len(l.dead) == mostDead {
			continue
		}
		if n := openRunNote(name); n != nil {
			json.NewDecoder(io.LimitReader(n.file, journal.Longest)).Decode(n)
			n.token = localfs.TempToken(strings.TrimSuffix(strings.TrimPrefix(name, prefix),
				runSuffix))
			l.dead = append(l.dead, n)
		}
	}
	if len(l.dead) > 0 {
		l.findRoots()
		l.readMarks(t.options.Journal, entries)
		l.continues = make(map[string]leftover)
		l.sweepers = make(chan struct{}, max(1, t.walk.walkers/2))
	}
}

// openRunNote opens and locks a note. It returns nil if its run is still alive.
func openRunNote(name string) *runNote {
	f, err := localfs.OpenPrivate(name)
	if err != nil {
		return nil
	}
	if !localfs.TryLock(f) {
		f.Close()
		return nil
	}
	return &runNote{file: f}
}

func (n *runNote) save() {
	if data, err := json.Marshal(n); err == nil {
		n.file.WriteAt(append(data, '\n'), 0)
	}
}

// isLocked reports whether the lock keeps others out: some file systems have no locks.
func (n *runNote) isLocked() bool {
	f, err := localfs.OpenPrivate(n.file.Name())
	if err != nil {
		return false
	}
	defer f.Close()
	return !localfs.TryLock(f)
}

// close releases the lock, and removes the note unless keep is set.
func (n *runNote) close(keep bool) {
	if keep {
		localfs.CloseLocked(n.file)
		return
	}
	localfs.RemoveLocked(n.file)
}

// readMarks finds the marks of dead runs in the journal.
func (l *leftovers) readMarks(dir string, entries []fs.DirEntry) {
	l.marks = make(map[string]string)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), journal.FileSuffix) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		m := journal.Read(name)
		if m == nil {
			continue
		}
		token := localfs.TempTokenOf(path.Base(filepath.ToSlash(m.Temporary)))
		if slices.ContainsFunc(l.dead, func(n *runNote) bool { return n.token == token }) {
			l.marks[m.Temporary] = name
		}
	}
}

// sweep removes the leftovers of dead runs from a directory and from its counterparts below their
// targets, except those that a file may continue from.
func (l *leftovers) sweep(d *directory) {
	for root := range l.roots {
		if root == l.root && d.fresh {
			continue
		}
		if d.unswept == nil {
			d.unswept = make(map[string]map[string]bool)
		}
		below, err := l.tidy(d.tree, root, d.rel, d.target)
		if err != nil {
			l.unseen.Store(true)
		}
		d.unswept[root] = below
	}
}

// sweepRest sweeps the subdirectories that the source does not have. A sync that is limited to a
// part of the tree leaves them to a full one.
func (l *leftovers) sweepRest(d *directory) {
	for root, names := range d.unswept {
		if d.tree.rules.partial {
			if len(names) > 0 {
				l.unseen.Store(true)
			}
			l.names.Add(-int64(len(names)))
			continue
		}
		l.sweepBelow(d.tree, root, d.rel, d.target, names, d.depth+1)
	}
	d.unswept = nil
}

// sweepBelow sweeps subdirectories and everything below them, several at a time.
func (l *leftovers) sweepBelow(t *tree, root, rel, dir string, names map[string]bool, depth int) {
	defer l.names.Add(-int64(len(names)))
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	for name := range names {
		if t.ctx.Err() != nil || t.tooDeep(depth) || t.tooMany(l.looked.Add(1)) {
			l.unseen.Store(true)
			return
		}
		sweep := func() {
			rel, dir := path.Join(rel, name), t.dst.Join(dir, name)
			below, err := l.tidy(t, root, rel, dir)
			if err != nil && !errors.Is(err, fs.ErrPermission) { // no run can have written there
				l.unseen.Store(true)
			}
			l.sweepBelow(t, root, rel, dir, below, depth+1)
		}
		select {
		case l.sweepers <- struct{}{}:
			sweeping.Go(func() {
				defer func() { <-l.sweepers }()
				sweep()
			})
		default:
			sweep()
		}
	}
}

// tidy removes the leftovers of dead runs from one directory, called dir in this run, and returns
// its subdirectories, except those beyond mostNames.
func (l *leftovers) tidy(t *tree, root, rel, dir string) (below map[string]bool, err error) {
	tokens := l.roots[root]
	below = make(map[string]bool)
	l.listings <- struct{}{}
	defer func() { <-l.listings }()
	err = tidy(t.dst, root, rel, func(name string, isDir bool) bool {
		switch temporary := t.dst.Join(dir, name); {
		case isDir && below[name]:
		case isDir && l.names.Add(1) > mostNames:
			l.names.Add(-1)
			l.unseen.Store(true)
		case isDir:
			below[name] = true
		case !tokens[localfs.TempTokenOf(name)]:
		case root != l.root || l.marks[temporary] == "":
			return true
		default:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.continues[temporary] = leftover{root, rel, name}
		}
		return false
	})
	return below, err
}

// tidy removes stale temporary files from a directory below the root of a copy, this one's or an
// earlier one's, and restores the name of an old file that was moved aside, if that name is free.
// isDir is false for links.
func tidy(at endpoint.Place, root, rel string, stale func(name string, isDir bool) bool) error {
	in, err := at.Below(root)
	if err != nil {
		return endpoint.IgnoreMissing(err)
	}
	defer in.Close()
	var names []string
	err = in.List(rel, nil, nil, func(name string, i endpoint.Info, err error) bool {
		if stale(name, i.Mode.IsDir()) {
			names = append(names, name)
		}
		return true
	})
	if err != nil {
		return endpoint.IgnoreMissing(err)
	}
	var work errgroup.Group
	work.SetLimit(deleteFiles)
	for _, name := range names {
		work.Go(func() error {
			temporary := path.Join(rel, name)
			if base, old := localfs.OldNameOf(name); old {
				return takeBack(in, temporary, base)
			}
			return endpoint.IgnoreMissing(in.Remove(temporary, false))
		})
	}
	return work.Wait()
}

// takeBack renames an old file that was moved aside back to base if that name is free, and
// otherwise removes it.
func takeBack(in endpoint.Root, aside, base string) error {
	if base == "" {
		return errOldName
	}
	name := path.Join(path.Dir(aside), base)
	_, err := in.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = in.Rename(aside, name)
	case err == nil:
		err = in.Remove(aside, false)
	}
	return endpoint.IgnoreMissing(err)
}

var errOldName = errors.New("the name of an old file that was moved aside is not known")

// met notes that the source has a directory, which is therefore swept when it is visited.
func (l *leftovers) met(d *directory, name string) {
	for _, names := range d.unswept {
		if names[name] {
			delete(names, name)
			l.names.Add(-1)
		}
	}
}

// findRoots collects the targets of dead runs, with their tokens.
func (l *leftovers) findRoots() {
	l.roots = make(map[string]map[localfs.TempToken]bool)
	for _, n := range l.dead {
		if len(n.Roots) == 0 { // a power failure leaves the note's name without its contents
			n.Roots = []string{journal.Text(l.root)}
		}
		for _, root := range n.Roots {
			root = journal.Path(root)
			if l.roots[root] == nil {
				l.roots[root] = make(map[localfs.TempToken]bool)
			}
			l.roots[root][n.token] = true
		}
	}
}

// end removes or closes the notes at the end of the run. whole means that nothing has failed.
func (l *leftovers) end(t *tree, whole bool) {
	if whole {
		l.made.complete()
	}
	if l.own == nil {
		return
	}
	whole = whole && !l.unseen.Load()
	if whole { // nothing will be continued: the files are complete already, or gone
		for temporary, mark := range l.marks {
			whole = l.forget(t, temporary, mark) && whole
		}
	}
	for _, n := range l.dead {
		n.close(!whole)
	}
	l.own.close(l.some.Load())
}

// forget removes a mark and its temporary file, unless another run holds the mark. A mark that is
// gone or names another file by now means that nothing will continue this one.
func (l *leftovers) forget(t *tree, temporary, mark string) bool {
	var held *journal.File
	if m := journal.Read(mark); m != nil && m.Temporary == temporary {
		var taken bool
		if held, taken = journal.Lock(mark); held == nil {
			return taken
		}
	}
	var err error
	if left, ok := l.continues[temporary]; ok {
		stale := func(name string, _ bool) bool { return name == left.name }
		err = tidy(t.dst, left.root, left.rel, stale)
	}
	if held != nil {
		held.Release(err != nil)
	}
	return err == nil
}

// leaves records that a failed file or link left something, or may have. alone means that it is
// reported on its own.
func (l *leftovers) leaves(alone bool) {
	l.some.Store(true)
	if !alone {
		l.count.Add(1)
	}
}

// leftBehind describes leftovers that were not reported one by one; "" means none.
func (t *tree) leftBehind() string {
	n := t.leftovers.count.Load()
	if n == 0 {
		return ""
	}
	what := "a temporary file"
	if n > 1 {
		what = fmt.Sprintf("up to %d temporary files", n)
	}
	what += fmt.Sprintf(" may be left, with names like .NAME.usftp-%sxxxx", t.copies.Token)
	if t.leftovers.own != nil {
		what += "; the next run of the same copy removes what is"
	}
	return what
}

// Copying a tree creates its target; if the target exists already, the copy goes into it. So
// repeating the same command, after an interruption or to make sure, would copy to another place.
// The journal therefore records that the target is the copy itself: in a file that is empty from
// before the target is created until everything is done, and non-empty for CompleteAge after that.

// unfinishedAge is how long repeating the same command continues an unfinished tree without being
// asked to resume: later its target may be somebody else's.
const unfinishedAge = 7 * 24 * time.Hour

// treeMark is the name of that file, "" if no journal is kept.
type treeMark string

// continues reports whether the target is the copy itself because an earlier run created it. If
// that run completed, only resume asks for the same place again.
func (m treeMark) continues(resume bool) bool {
	if m == "" {
		return false
	}
	info, err := os.Lstat(string(m))
	if err != nil ||
		info.Size() > 0 && (!resume || time.Since(info.ModTime()) > journal.CompleteAge) ||
		!resume && time.Since(info.ModTime()) > unfinishedAge {
		return false
	}
	f, err := localfs.OpenPrivate(string(m))
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// begin records that the target is being created.
func (m treeMark) begin() { m.write("") }

// complete records that the copy is complete.
func (m treeMark) complete() { m.write("\"complete\"\n") }

func (m treeMark) write(state string) {
	if m == "" || os.MkdirAll(filepath.Dir(string(m)), 0o700) != nil {
		return
	}
	journal.Sweep(filepath.Dir(string(m)))
	f, err := localfs.OpenPrivate(string(m))
	if err != nil {
		return
	}
	defer f.Close()
	if f.Truncate(0) == nil {
		f.WriteString(state)
	}
}

// forget removes the mark of a copy that went into an existing directory.
func (m treeMark) forget() {
	if m != "" {
		os.Remove(string(m))
	}
}
