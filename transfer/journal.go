package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mark is what an interrupted job has left, so that a later one can go on from there.
type mark struct {
	Temporary string `json:"temporary"` // its path, on the host or on this machine
	// that arrived without a gap; 0 where nobody knows of any
	Bytes  int64 `json:"bytes"`
	Synced bool  `json:"synced"` // they are on the disk
	// of this machine, where what is here is not synced: a crash may have lost any of it
	Boot       string    `json:"boot,omitempty"`
	SourceSize int64     `json:"source_size"`
	SourceTime time.Time `json:"source_time"`
	SourceID   string    `json:"source_id"` // of the file itself, where it has one
	// up to where the source may have been written to while it was read, see doubt
	SourceDoubt int64 `json:"source_doubt,omitempty"`
	// temporary files of tries before, which could not be removed over a lost connection
	Strays []string `json:"strays,omitempty"`
}

// journalAge is how long marks are kept. Whoever has not gone on by then will not.
const journalAge = 30 * 24 * time.Hour

// identity is what tells a host from others.
func (h *Host) identity() string {
	if h.Identity == "" {
		return h.Name
	}
	return h.Identity
}

// journalFile returns the file of the job's mark, "" where no journal is kept. What makes two jobs
// the same is in its name.
func (r *run) journalFile(target string) string {
	if r.Options.Journal == "" || r.Reader != nil || r.Writer != nil {
		return ""
	}
	var err error
	local, remote := r.Source, target
	if r.Direction == Download {
		local, remote = target, r.Source
	}
	identity := r.Host.identity()
	if r.Direction == Relay {
		local = r.From.identity() + "\x00" + local
	} else if local, err = filepath.Abs(local); err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{identity, r.Direction.String(), local,
		remote}, "\x00")))
	return filepath.Join(r.Options.Journal, hex.EncodeToString(sum[:16])+".json")
}

// loadMark returns what an earlier try or run has left, nil where nothing is known.
func (r *run) loadMark(target string) *mark {
	if r.left != nil {
		return r.left
	}
	c := r.claimJournal(target)
	if c == nil {
		return nil
	}
	var m mark
	if json.NewDecoder(io.NewSectionReader(c.file, 0, longestMark)).Decode(&m) != nil ||
		m.Bytes < 0 || m.Temporary == "" {
		return nil
	}
	return &m
}

// noteBefore notes a temporary file before it is made, so that whatever becomes of this process or
// of the connection, the next run of the same copy knows what to remove. The small files of a tree
// are the tree's to note.
func (r *run) noteBefore(target, temporary string) {
	if !r.isSmall(r.size) {
		r.writeMark(target, mark{Temporary: temporary})
	}
}

// longestMark is more than any mark is long.
const longestMark = 64 << 10

// saveMark keeps a mark of what a try has left. It says whether a later run will find it.
func (r *run) saveMark(target string, m mark) bool {
	r.left = &m
	return r.writeMark(target, m)
}

// writeMark writes a mark to the journal.
func (r *run) writeMark(target string, m mark) bool {
	c := r.claimJournal(target)
	if !m.Synced && r.Direction == Download {
		m.Boot = bootID()
	}
	if r.suspect() {
		m.SourceDoubt = min(m.Bytes, r.doubt.bound.Load())
	}
	m.Strays = r.strays
	data, err := json.Marshal(m)
	if c == nil || err != nil {
		return false
	}
	// In one piece, and what lay behind is cut off after that: who reads it takes the first value,
	// whenever we are killed.
	if _, err := c.file.WriteAt(append(data, '\n'), 0); err != nil {
		return false
	}
	return c.file.Truncate(int64(len(data))+1) == nil
}

// dropMark forgets what an earlier try or run has left.
func (r *run) dropMark(target string) {
	r.left = nil
	if c := r.claimJournal(target); c != nil {
		c.file.Truncate(0)
	}
}

const (
	// leastMarked is how large a file is that notes as it goes how far it has come, so that a
	// process that is killed leaves that too.
	leastMarked = 8 << 20
	markEvery   = time.Second
)

// markAsItGoes notes how far a large file has come until the returned function is called.
func (r *run) markAsItGoes(progress func() int64) (stop func()) {
	if r.marks == nil || r.size < leastMarked || r.Options.Journal == "" {
		return func() {}
	}
	last := r.result.Resumed
	// whoever is killed before the first second is over leaves a file too, which a later run can
	// remove
	if last == 0 {
		r.writeMark(r.marks.target, r.marks.mark)
	}
	return each(markEvery, func() {
		if bytes := progress(); bytes > last {
			last = bytes
			m := r.marks.mark
			m.Bytes = bytes
			r.writeMark(r.marks.target, m)
		}
	})
}

// marks is what is noted of a file that is under way.
type marks struct {
	target string
	mark   mark // but for Bytes
}

// claim is a run's hold on its mark: as long as it lasts no other run of the same job goes on from
// what this one has under way.
type claim struct {
	name string
	file *os.File // locked
}

// claimJournal returns the run's claim, nil where no journal is kept, or another run has it.
func (r *run) claimJournal(target string) *claim {
	if r.claim != nil || r.unclaimed {
		return r.claim
	}
	r.unclaimed = true
	name := r.journalFile(target)
	if name == "" || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return nil
	}
	sweepJournal(r.Options.Journal)
	for {
		f, err := openOurs(name)
		if err != nil {
			return nil
		}
		if !lockFile(f) {
			f.Close()
			r.note("another run copies the same to the same target: each does so for itself")
			return nil
		}
		ours, err := f.Stat()
		there, thereErr := os.Stat(name)
		if err == nil && thereErr == nil && os.SameFile(ours, there) {
			r.claim = &claim{name, f}
			return r.claim
		}
		f.Close() // who had it removed it before we had the lock
		if err != nil || thereErr != nil && !errors.Is(thereErr, fs.ErrNotExist) {
			return nil
		}
	}
}

// releaseJournal ends the run's claim. A mark stays where something is left to go on from.
func (r *run) releaseJournal(keep bool) {
	c := r.claim
	if c == nil {
		return
	}
	r.claim = nil
	if info, err := c.file.Stat(); keep && err == nil && info.Size() > 0 {
		c.file.Close()
		return
	}
	if os.Remove(c.name) != nil { // as long as it is open, on some systems
		c.file.Close()
		os.Remove(c.name)
		return
	}
	c.file.Close()
}

// sweepJournal removes marks that nobody has come back to.
func sweepJournal(journal string) {
	entries, _ := os.ReadDir(journal)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > journalAge &&
			strings.HasSuffix(e.Name(), ".json") {
			os.Remove(filepath.Join(journal, e.Name()))
		}
	}
}
