package transfer

import (
	"encoding/json"
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

	"github.com/usftp/usftp/internal/localfs"
)

// litter is what runs of a tree leave behind: temporary files of which some are too many to be noted
// one by one. All names of a run have its token, and the token is noted in the journal before the
// first of them is made. Whoever copies the same once more removes them from each directory that it
// comes to, whether it copies to the same place or, since that is a directory by now, into it.
//
// A note is locked as long as its run is there, so nobody removes what another run has under way.
type litter struct {
	own   *runNote          // nil if there is no journal
	dead  []*runNote        // of runs that have ended
	marks map[string]string // of files of dead runs, by their temporary files
	root  string            // of this run's copy, as notes have it

	some   atomic.Bool  // something of this run is left, or may be
	unseen atomic.Bool  // not all that dead runs left was found or could be removed
	count  atomic.Int64 // of what is left of files that were not reported one by one

	mu        sync.Mutex
	continues map[string]leftover // what is left for files to continue from
}

// A leftover is a temporary file in a directory below a root.
type leftover struct{ root, rel, name string }

// A runNote is a file in the journal.
type runNote struct {
	file  *os.File
	token localfs.TempToken
	Roots []string `json:"roots"` // the directories that the run copied to
}

const (
	runSuffix = ".run.json"

	// mostDead is how many runs are cleaned up after at once: each holds a file open.
	mostDead = 64
)

// openLitter notes this run's token, and finds the notes of earlier runs of the same copy.
func (t *tree) openLitter() {
	l := &t.litter
	key := t.journalKey("tree", t.route.Source, t.route.Target)
	if key == "" || t.options.DryRun {
		return
	}
	prefix := strings.TrimSuffix(key, treeSuffix) + "."
	if os.MkdirAll(t.options.Journal, 0o700) != nil {
		return
	}
	_, l.root, _ = t.dst.identity(t.root.target)
	if l.own = openRunNote(prefix + string(t.token) + runSuffix); l.own == nil {
		return
	}
	l.own.Roots = append(l.own.Roots, l.root)
	l.own.save()
	if !l.own.isLocked() { // nobody can tell whether another run has ended
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
			json.NewDecoder(io.LimitReader(n.file, longestMark)).Decode(n)
			n.token = localfs.TempToken(strings.TrimSuffix(strings.TrimPrefix(name, prefix), runSuffix))
			l.dead = append(l.dead, n)
		}
	}
	if len(l.dead) > 0 {
		l.readMarks(t.options.Journal, entries)
		l.continues = make(map[string]leftover)
	}
}

// openRunNote opens and locks a note; nil if its run is still there.
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

// isLocked reports whether the lock keeps others out. Some file systems have none.
func (n *runNote) isLocked() bool {
	f, err := localfs.OpenPrivate(n.file.Name())
	if err != nil {
		return false
	}
	defer f.Close()
	return !localfs.TryLock(f)
}

// close ends the lock. The note stays if there is something that it is about.
func (n *runNote) close(keep bool) {
	if !keep && os.Remove(n.file.Name()) != nil { // some systems refuse that while it is open
		defer os.Remove(n.file.Name())
	}
	n.file.Close()
}

// readMarks finds the marks of dead runs in the journal.
func (l *litter) readMarks(journal string, entries []fs.DirEntry) {
	l.marks = make(map[string]string)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), fileSuffix) {
			continue
		}
		name := filepath.Join(journal, e.Name())
		m := readMark(name)
		if m == nil {
			continue
		}
		token := localfs.TempTokenOf(path.Base(filepath.ToSlash(m.Temporary)))
		if slices.ContainsFunc(l.dead, func(n *runNote) bool { return n.token == token }) {
			l.marks[m.Temporary] = name
		}
	}
}

func readMark(name string) *mark {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var m mark
	if json.NewDecoder(io.LimitReader(f, longestMark)).Decode(&m) != nil || m.Temporary == "" {
		return nil
	}
	return &m
}

// sweep removes what dead runs left in a directory, and where they had it. What a file can be
// continued from stays for it.
func (l *litter) sweep(d *directory) {
	t := d.tree
	for root, tokens := range l.roots() {
		if root == l.root && d.fresh {
			continue
		}
		err := t.dst.tidy(root, d.rel, func(name string) bool {
			if !tokens[localfs.TempTokenOf(name)] {
				return false
			}
			temporary := t.dst.join(d.target, name)
			if root != l.root || l.marks[temporary] == "" {
				return true
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.continues[temporary] = leftover{root, d.rel, name}
			return false
		})
		if err != nil {
			l.unseen.Store(true)
		}
	}
}

// roots returns where dead runs left something, and their tokens.
func (l *litter) roots() map[string]map[localfs.TempToken]bool {
	if len(l.dead) == 0 {
		return nil
	}
	roots := make(map[string]map[localfs.TempToken]bool)
	for _, n := range l.dead {
		for _, root := range n.Roots {
			if roots[root] == nil {
				roots[root] = make(map[localfs.TempToken]bool)
			}
			roots[root][n.token] = true
		}
	}
	return roots
}

// end is for when everything is done. Whole means that nothing has failed.
func (l *litter) end(t *tree, whole bool) {
	if l.own == nil {
		return
	}
	whole = whole && !l.unseen.Load()
	if whole { // nobody will continue any more: the files are there already, or gone
		for temporary, mark := range l.marks {
			whole = l.forget(t.dst, temporary, mark) && whole
		}
	}
	for _, n := range l.dead {
		n.close(!whole)
	}
	l.own.close(l.some.Load())
}

// forget removes a mark and what it is about, unless that is something else by now, or another run
// continues from it.
func (l *litter) forget(dst target, temporary, mark string) bool {
	if m := readMark(mark); m == nil || m.Temporary != temporary {
		return true
	}
	f, err := localfs.OpenPrivate(mark)
	if err != nil {
		return false
	}
	defer f.Close()
	if !localfs.TryLock(f) {
		return true
	}
	if left, ok := l.continues[temporary]; ok {
		stale := func(name string) bool { return name == left.name }
		if dst.tidy(left.root, left.rel, stale) != nil {
			return false
		}
	}
	os.Remove(mark)
	return true
}

// leaves notes that a file or link that was not copied has left something, or may have. alone means
// that it is reported by itself.
func (l *litter) leaves(alone bool) {
	l.some.Store(true)
	if !alone {
		l.count.Add(1)
	}
}

// mayLeave reports whether a file that was not copied may have left something.
func (c *fileCopy) mayLeave() bool {
	return c.result.LeftBehind != "" ||
		c.to.lost() && (c.tries.made != "" || len(c.tries.strays) > 0)
}

// leftBehind says what is left and was not reported file by file, "" if nothing is.
func (t *tree) leftBehind() string {
	n := t.litter.count.Load()
	if n == 0 {
		return ""
	}
	what := "a temporary file"
	if n > 1 {
		what = fmt.Sprintf("up to %d temporary files", n)
	}
	what += fmt.Sprintf(" may be left, with names like .NAME.usftp-%sxxxx", t.token)
	if t.litter.own != nil {
		what += "; the next run of the same copy removes what is"
	}
	return what
}
