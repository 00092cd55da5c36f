// Package journal keeps the facts that the next run of an interrupted copy needs: a directory with
// a file for each copy, named after its source and target. The file for a copied file holds a
// [Mark]; the files for trees belong to package transfer.
package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/usftp/usftp/internal/localfs"
)

const (
	FileSuffix = ".file.json"
	TreeSuffix = ".tree.json"

	// markAge is how long marks are kept. A copy not continued by then never will be.
	markAge = 30 * 24 * time.Hour

	// CompleteAge and mostComplete limit for how long, and how many, completed trees are
	// remembered.
	CompleteAge  = 24 * time.Hour
	mostComplete = 1000

	Longest = 64 << 10 // more than any mark takes

	sumLength = 16 // bytes of the hash in a name
)

// Name returns the path of a copy's file. kind is "file" or "tree".
func Name(dir, kind, fromHost, source, toHost, target string) string {
	sum := sha256.Sum256([]byte(strings.Join(
		[]string{kind, fromHost, source, toHost, target}, "\x00")))
	return filepath.Join(dir, hex.EncodeToString(sum[:sumLength])+"."+kind+".json")
}

// A Mark records the state of an interrupted copy, for a later one to continue. It is a file in the
// journal.
type Mark struct {
	Temporary string `json:"temporary"`         // path at the target's end
	Hidden    bool   `json:"hidden,omitempty"`  // the target, which the host does not show yet
	Private   bool   `json:"private,omitempty"` // only its owner can open it
	Bytes     int64  `json:"bytes"`             // the contiguous part; 0 if unknown

	// InPlace is set if it is the target itself, whose contents may be neither the old ones nor the
	// new ones.
	InPlace bool   `json:"in_place,omitempty"`
	Synced  bool   `json:"synced"`         // that part is on disk
	Boot    string `json:"boot,omitempty"` // of this machine: a crash may have lost data not on disk

	Source

	// Delta is set if parts came from the old file. Only a hash of all of it can then show that it
	// is the beginning of the source.
	Delta bool `json:"delta,omitempty"`

	// RacyBytes is how far the source may have been written to while it was read.
	RacyBytes int64 `json:"racy_bytes,omitempty"`
	// Strays are temporary files of earlier attempts and runs that were not removed.
	Strays []string `json:"strays,omitempty"`

	// Aside is where the replaced file is while the new one gets its name, on hosts that cannot do
	// that in one step.
	Aside string `json:"aside,omitempty"`
}

// A Source describes the source when it was copied.
type Source struct {
	SourceSize int64     `json:"source_size"`
	SourceTime time.Time `json:"source_time"`
	SourceID   string    `json:"source_id"` // of a local file
}

// Read returns the mark that an earlier run left, or nil if there is none.
func Read(name string) *Mark {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	return decode(f)
}

// decode returns nil unless r begins with a valid mark.
func decode(r io.Reader) *Mark {
	var m Mark
	if json.NewDecoder(io.LimitReader(r, Longest)).Decode(&m) != nil || m.Bytes < 0 {
		return nil
	}
	for _, p := range m.paths() {
		*p = Path(*p)
	}
	if m.Temporary == "" {
		return nil
	}
	return &m
}

// paths returns the paths of a mark.
func (m *Mark) paths() []*string {
	all := []*string{&m.Temporary, &m.Aside}
	for i := range m.Strays {
		all = append(all, &m.Strays[i])
	}
	return all
}

// Text returns a path as JSON can hold it. A path that is no UTF-8 would come back as another; it
// is told apart by a NUL, which no path has.
func Text(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return "\x00" + hex.EncodeToString([]byte(path))
}

// Path returns the path of a Text, "" if it has none.
func Path(text string) string {
	if coded, is := strings.CutPrefix(text, "\x00"); is {
		path, err := hex.DecodeString(coded)
		if err != nil {
			return ""
		}
		return string(path)
	}
	return text
}

// A File is the file of a mark. As long as it is locked, no other run of the same copy continues
// from the data that this one is writing.
type File struct{ file *os.File }

// Lock opens and locks a mark. It returns nil if it cannot; taken is true if another run holds it.
func Lock(name string) (f *File, taken bool) {
	dir := filepath.Dir(name)
	if os.MkdirAll(dir, 0o700) != nil {
		return nil, false
	}
	Sweep(dir)
	for range mostLocked {
		f, err := localfs.OpenPrivate(name)
		if err != nil {
			return nil, false
		}
		if !localfs.TryLock(f) {
			f.Close()
			return nil, true
		}
		ours, err := f.Stat()
		there, thereErr := os.Stat(name)
		if err == nil && thereErr == nil && os.SameFile(ours, there) {
			return &File{f}, false
		}
		localfs.CloseLocked(f) // its holder removed it before we got the lock
		if err != nil || thereErr != nil && !errors.Is(thereErr, fs.ErrNotExist) {
			return nil, false
		}
	}
	return nil, false
}

// mostLocked is how often a mark may be replaced while it is being locked: some file systems show
// another inode number whenever a name is looked up, so that no mark seems to stay.
const mostLocked = 100

// Load returns the mark that an earlier run left, or nil if there is none.
func (f *File) Load() *Mark { return decode(io.NewSectionReader(f.file, 0, Longest)) }

// Save stores a mark, and reports whether a later run will find it.
func (f *File) Save(m Mark) bool {
	m.Strays = slices.Clone(m.Strays)
	for _, p := range m.paths() {
		*p = Text(*p)
	}
	data, err := json.Marshal(m)
	if err != nil {
		return false
	}
	// Write it at once and truncate afterwards: readers take the first JSON value, so the mark is
	// valid even if we are killed in between.
	if _, err := f.file.WriteAt(append(data, '\n'), 0); err != nil {
		return false
	}
	return f.file.Truncate(int64(len(data))+1) == nil
}

// Release ends the lock. With keep a saved mark stays, otherwise the file is removed.
func (f *File) Release(keep bool) {
	if info, err := f.file.Stat(); keep && err == nil && info.Size() > 0 {
		localfs.CloseLocked(f.file)
		return
	}
	localfs.RemoveLocked(f.file)
}

// isOurs reports whether a file's name begins as Name makes it: the caller's directory may hold
// other files, too.
func isOurs(name string) bool {
	sum, kind, _ := strings.Cut(name, ".")
	_, err := hex.DecodeString(sum)
	return err == nil && len(sum) == 2*sumLength && strings.HasSuffix(kind, "json")
}

// Sweep removes marks that are too old, and the oldest of too many completed trees.
func Sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	var complete []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !isOurs(e.Name()) {
			continue
		}
		most := markAge
		if strings.HasSuffix(e.Name(), TreeSuffix) && info.Size() > 0 {
			most = CompleteAge
			complete = append(complete, info)
		}
		if time.Since(info.ModTime()) > most {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	if len(complete) < mostComplete {
		return
	}
	slices.SortFunc(complete, func(a, b fs.FileInfo) int {
		return a.ModTime().Compare(b.ModTime())
	})
	for _, info := range complete[:len(complete)-mostComplete+1] { // leaves room for one more
		os.Remove(filepath.Join(dir, info.Name()))
	}
}

// A file that was written in place and left incomplete may look complete: with the source's size,
// and a time that only happens to be the source's, or is not compared. So the journal has a mark
// for each such file from before its first write until it is complete.

// Halfways are the names of the marks that were in the journal when they were first needed.
type Halfways struct {
	once  sync.Once
	names map[string]bool
}

// Any reports whether there were any such marks.
func (h *Halfways) Any(dir string) bool {
	h.once.Do(func() {
		h.names = make(map[string]bool)
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), FileSuffix) {
				h.names[e.Name()] = true
			}
		}
	})
	return len(h.names) > 0
}

// Has reports whether an earlier run wrote a target in place and did not complete it. name is the
// path of its mark.
func (h *Halfways) Has(name string) bool {
	if !h.names[filepath.Base(name)] {
		return false
	}
	m := Read(name)
	return m != nil && m.InPlace
}
