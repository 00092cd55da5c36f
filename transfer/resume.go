package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/usftp/usftp/internal/localfs"
)

// A mark is what an interrupted copy left, so that a later one can continue from there. It is a
// file in the journal.
type mark struct {
	Temporary string `json:"temporary"`      // its path at the target's end
	Bytes     int64  `json:"bytes"`          // that arrived without a gap; 0 if nobody knows of any
	Synced    bool   `json:"synced"`         // they are on disk
	Boot      string `json:"boot,omitempty"` // of this machine: a crash may have lost what was not

	SourceSize int64     `json:"source_size"`
	SourceTime time.Time `json:"source_time"`
	SourceID   string    `json:"source_id"` // of a local file

	// SourceDoubt is up to where the source may have been written to while it was read; see doubt.
	SourceDoubt int64 `json:"source_doubt,omitempty"`
	// Strays are temporary files of earlier tries, which a lost connection kept from being removed.
	Strays []string `json:"strays,omitempty"`
}

const (
	// markAge is how long marks are kept. Whoever has not continued by then will not.
	markAge = 30 * 24 * time.Hour

	longestMark = 64 << 10 // more than any mark takes

	// leastMarked is how large a file is that notes its progress, so that a process that is killed
	// leaves that too.
	leastMarked = 8 << 20
	markEvery   = time.Second

	// tail is how much of what an earlier run left is read back and compared before continuing.
	// What was not synced a server may have lost if it went down meanwhile.
	tail         = 1 << 20
	unsyncedTail = 16 << 20

	// retriedTail is for a copy that continues by itself, after seconds. It is little, so that a
	// copy gets on over a link that breaks every few seconds too.
	retriedTail = 256 << 10

	// resumeHint is what errors say about it.
	resumeHint = "the same with --resume continues from there"
)

// A journal is a file's part in the journal. As long as it holds its mark's lock, no other run of
// the same copy continues from what this one has under way.
type journal struct {
	mark      *mark  // of this try, but for Bytes; nil if nothing can be continued
	left      *mark  // by a try that lost its connection
	resumable bool   // a mark was saved for a later run
	stale     string // an earlier run's temporary file, of no use once this copy is done

	asked bool     // for the lock
	file  *os.File // the locked mark, nil if another run has it or there is no journal
	name  string
}

// newMark returns what to note of a copy, nil if nothing of it can be continued.
func newMark(in input, out output) *mark {
	f := in.facts()
	if !f.regular() || !f.hasTimes || !out.atomic() || out.stored() == "" {
		return nil
	}
	return &mark{Temporary: out.stored(), SourceSize: f.size, SourceTime: f.mtime, SourceID: f.id}
}

// journalKey names a copy's file in the journal, "" if no journal is kept or the copy cannot be
// resumed: a stream, or a copy on this machine.
func (j *job) journalKey(kind, source, target string) string {
	from, source, isFile := j.src.identity(source)
	to, target, isToFile := j.dst.identity(target)
	if j.options.Journal == "" || !isFile || !isToFile {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, from, source, to, target}, "\x00")))
	return filepath.Join(j.options.Journal, hex.EncodeToString(sum[:16])+"."+kind+".json")
}

// markName returns the file's name in the journal, "" if it has none.
func (j *journal) markName(c *fileCopy) string {
	return c.journalKey("file", c.source, c.result.Target)
}

// resumes reports whether to continue from what was left.
func (j *journal) resumes(c *fileCopy) bool { return c.options.Resume || j.left != nil }

// resume continues from what an earlier run or try left, if that is proved to be the beginning of
// the source. It returns where to go on, 0 if there is nothing to continue from.
func (j *journal) resume(c *fileCopy, in input, out output) int64 {
	f := in.facts()
	if !j.resumes(c) || c.main() == nil || c.options.Placement == PlaceDirect || c.isSmall() || out.direct() ||
		!f.regular() || !f.hasTimes {
		return 0
	}
	m := j.load(c)
	if m == nil {
		return 0
	}
	ours := out.left(m.Temporary)
	j.inheritStrays(c, m, out)
	if ours && m.Bytes == 0 {
		if out.discard(m.Temporary); !c.lost() {
			j.drop(c)
		}
		return 0
	}
	var why error
	switch {
	case m.SourceSize != f.size || !m.SourceTime.Equal(f.mtime) || m.SourceID != f.id:
		why = errors.New("the source has changed since")
	case !ours:
		why = errors.New("it is somewhere else")
	case c.to != nil && m.SourceDoubt > 0 && m != j.left:
		why = errors.New("the source was being written to when it was begun")
	default:
		var offset int64
		if offset, why = out.resume(c, in, m); why == nil {
			return offset
		}
		if errors.Is(why, fs.ErrNotExist) {
			j.drop(c)
			return 0
		}
	}
	c.note("not continuing from what an earlier run left: " + plain(why))
	if !c.interrupted() {
		if ours {
			out.discard(m.Temporary)
		}
		j.drop(c)
	}
	return 0
}

// findStale looks for what an interrupted run of the same copy left, if this one does not continue
// from there. It is removed once the copy is in place: the journal will know it no longer, and
// hidden files of any size would pile up beside the target.
func (j *journal) findStale(c *fileCopy, out output) {
	if j.resumes(c) && c.main() != nil || j.stale != "" || c.isSmall() {
		return
	}
	if _, err := os.Lstat(j.markName(c)); err != nil {
		return
	}
	m := j.load(c)
	j.inheritStrays(c, m, out)
	if m != nil && out.left(m.Temporary) {
		j.stale = m.Temporary
		if m.Bytes > 0 {
			c.note(fmt.Sprintf("copying it again; the %d bytes that an interrupted copy left are removed when it is done (--resume continues from them)", m.Bytes))
		}
	}
}

// inheritStrays takes over what tries of an earlier run left.
func (j *journal) inheritStrays(c *fileCopy, m *mark, out output) {
	if m == nil || m == j.left {
		return
	}
	for _, name := range m.Strays {
		if out.left(name) {
			c.tries.strays = append(c.tries.strays, name)
		}
	}
}

// removeStrays removes what earlier tries left and nothing continues from.
func (j *journal) removeStrays(c *fileCopy, out output) {
	strays := &c.tries.strays
	if j.left != nil {
		*strays = append(*strays, j.left.Temporary)
		j.left = nil
	}
	for len(*strays) > 0 {
		err := out.discard((*strays)[0])
		if err != nil && !refused(err) && !errors.Is(err, fs.ErrNotExist) {
			return // the connection is lost again
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && c.tree != nil {
			c.tree.litter.leaves(false)
		}
		*strays = (*strays)[1:]
	}
}

// noteBefore notes a temporary file before it is made, so that whatever becomes of this process or
// of the connection, the next run of the same copy knows what to remove. The small files of a tree
// are not noted: the next try removes them.
func (j *journal) noteBefore(c *fileCopy, temporary string) {
	if !c.isSmall() {
		j.write(c, mark{Temporary: temporary})
	}
}

// keep notes what a try has left.
func (j *journal) keep(c *fileCopy, synced bool) {
	if j.mark == nil {
		return
	}
	m := *j.mark
	m.Bytes, m.Synced = c.result.Bytes, synced
	j.left = &m
	if j.write(c, m) {
		j.resumable = true
		c.detail += "; " + resumeHint
	}
}

// load returns what an earlier try or run left, nil if nothing is known.
func (j *journal) load(c *fileCopy) *mark {
	if j.left != nil {
		return j.left
	}
	if !j.lock(c) {
		return nil
	}
	var m mark
	if json.NewDecoder(io.NewSectionReader(j.file, 0, longestMark)).Decode(&m) != nil ||
		m.Bytes < 0 || m.Temporary == "" {
		return nil
	}
	return &m
}

// write writes a mark to the journal, and reports whether a later run will find it.
func (j *journal) write(c *fileCopy, m mark) bool {
	if !m.Synced {
		m.Boot = localfs.BootID()
	}
	if d := c.tries.doubt; d.certain() {
		m.SourceDoubt = min(m.Bytes, d.bound.Load())
	}
	m.Strays = c.tries.strays
	data, err := json.Marshal(m)
	if err != nil || !j.lock(c) {
		return false
	}
	// In one piece, and what lay behind is cut off after that: readers take the first value,
	// whenever we are killed.
	if _, err := j.file.WriteAt(append(data, '\n'), 0); err != nil {
		return false
	}
	return j.file.Truncate(int64(len(data))+1) == nil
}

// drop forgets what an earlier try or run left.
func (j *journal) drop(c *fileCopy) {
	j.left = nil
	if j.lock(c) {
		j.file.Truncate(0)
	}
}

// markProgress notes how far a large file has come until stop is called.
func (j *journal) markProgress(c *fileCopy, position func() int64) (stop func()) {
	if j.mark == nil || c.size < leastMarked || c.options.Journal == "" || !c.provable() {
		return func() {}
	}
	last := c.result.Resumed
	// whoever is killed within the first second leaves a file too, which a later run can remove
	if last == 0 {
		j.write(c, *j.mark)
	}
	return every(markEvery, func() {
		if bytes := position(); bytes > last {
			last = bytes
			m := *j.mark
			m.Bytes = bytes
			j.write(c, m)
		}
	})
}

// lock opens and locks the mark, once. It reports whether this run has it.
func (j *journal) lock(c *fileCopy) bool {
	if j.asked {
		return j.file != nil
	}
	j.asked = true
	name := j.markName(c)
	if name == "" || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return false
	}
	sweepJournal(c.options.Journal)
	for {
		f, err := localfs.OpenPrivate(name)
		if err != nil {
			return false
		}
		if !localfs.TryLock(f) {
			f.Close()
			c.note("another run copies the same to the same target: each does so for itself")
			return false
		}
		ours, err := f.Stat()
		there, thereErr := os.Stat(name)
		if err == nil && thereErr == nil && os.SameFile(ours, there) {
			j.name, j.file = name, f
			return true
		}
		f.Close() // who had it removed it before we got the lock
		if err != nil || thereErr != nil && !errors.Is(thereErr, fs.ErrNotExist) {
			return false
		}
	}
}

// release ends the lock. A mark stays if there is something to continue from.
func (j *journal) release(keep bool) {
	f := j.file
	if f == nil {
		return
	}
	j.file = nil
	if info, err := f.Stat(); keep && err == nil && info.Size() > 0 {
		f.Close()
		return
	}
	if os.Remove(j.name) != nil { // some systems refuse that while it is open
		f.Close()
		os.Remove(j.name)
		return
	}
	f.Close()
}

// sweepJournal removes marks that nobody has come back to.
func sweepJournal(journal string) {
	entries, _ := os.ReadDir(journal)
	var complete []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		most := markAge
		if strings.HasSuffix(e.Name(), treeSuffix) && info.Size() > 0 {
			most = completeAge
			complete = append(complete, info)
		}
		if time.Since(info.ModTime()) > most {
			os.Remove(filepath.Join(journal, e.Name()))
		}
	}
	if len(complete) < mostComplete {
		return
	}
	slices.SortFunc(complete, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range complete[:len(complete)-mostComplete+1] { // one more is to come
		os.Remove(filepath.Join(journal, info.Name()))
	}
}

// A copy of a tree creates its target, and if the target exists the copy goes into it: so the same
// command given once more, after an interruption or to make sure, would mean another place. That the
// target is the copy itself is noted in the journal: from before it is created until everything is
// done by an empty file, and for completeAge after that by one that is not empty.

const (
	// completeAge is how long, and mostComplete how many completed trees are remembered.
	completeAge  = 24 * time.Hour
	mostComplete = 1000

	treeSuffix = ".tree.json"
	fileSuffix = ".file.json"
)

// treeMark is the name of that note, "" if no journal is kept.
type treeMark string

func (t *tree) madeMark() treeMark {
	return treeMark(t.journalKey("tree", t.route.Source, t.route.Target))
}

// exists reports whether the target is what an earlier run created.
func (m treeMark) exists() bool {
	if m == "" {
		return false
	}
	info, err := os.Lstat(string(m))
	if err != nil || info.Size() > 0 && time.Since(info.ModTime()) > completeAge {
		return false
	}
	f, err := localfs.OpenPrivate(string(m))
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// begin notes that the target is being created.
func (m treeMark) begin() { m.write("") }

// complete notes that everything is there.
func (m treeMark) complete() { m.write("\"complete\"\n") }

func (m treeMark) write(state string) {
	if m == "" || os.MkdirAll(filepath.Dir(string(m)), 0o700) != nil {
		return
	}
	sweepJournal(filepath.Dir(string(m)))
	f, err := localfs.OpenPrivate(string(m))
	if err != nil {
		return
	}
	defer f.Close()
	if f.Truncate(0) == nil {
		f.WriteString(state)
	}
}

// forget is for when the copy lies in the target.
func (m treeMark) forget() {
	if m != "" {
		os.Remove(string(m))
	}
}
