package plan

import (
	"fmt"
	"io/fs"
	"iter"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/spill"
)

// Extras are the entries that a sync deletes: the target has them and the source does not. They are
// found while the tree is walked, and deleted when everything else is done: files first, then
// directories from the deepest up. If there are many, the list is kept on disk. The zero Extras are
// empty.
type Extras struct {
	files   spill.List // records of Lost
	touched spill.List // records of directories that lose entries
	opened  spill.List // records of directories that had to be opened
	found   atomic.Int64
	held    atomic.Int64 // files and links at the target, extra or not

	mu    sync.Mutex
	dirs  []*spill.List     // records of Lost, by depth
	stays map[string]string // why directories will not be empty, by path
}

// Lost names the entries that a directory of the target loses. Present is the nearest directory
// above it that the source has, or itself if the source has it.
type Lost struct {
	Dir, Present string
	Names        []string
}

const (
	// MostLost limits the files in one record.
	MostLost = 512

	mostStays = 1 << 17 // directories known to stay; the others show it when they are deleted

	// Deleting more than half of the target's files is refused, unless they are this few.
	fewDeleted = 10
)

// Close removes the lists on disk.
func (x *Extras) Close() {
	for _, s := range append(x.dirs, &x.files, &x.touched, &x.opened) {
		s.Close()
	}
}

// Hold counts files and links at the target, extra or not.
func (x *Extras) Hold(files int) { x.held.Add(int64(files)) }

// AddFiles adds files and links. AddDir adds a directory at this depth of the tree.
func (x *Extras) AddFiles(files Lost) {
	if len(files.Names) > 0 {
		x.found.Add(int64(len(files.Names)))
		files.addTo(&x.files)
	}
}

func (x *Extras) AddDir(rel, present string, depth int) {
	x.mu.Lock()
	for len(x.dirs) <= depth {
		x.dirs = append(x.dirs, new(spill.List))
	}
	at := x.dirs[depth]
	x.mu.Unlock()
	Lost{path.Dir(rel), present, []string{path.Base(rel)}}.addTo(at)
}

func (l Lost) addTo(records *spill.List) {
	records.Add(append([]string{l.Dir, l.Present}, l.Names...)...)
}

// Keep records why a directory stays if it is extra: an entry in it does. It returns false if that
// is recorded already, or too many are. Kept returns what is recorded, or "".
func (x *Extras) Keep(rel, why string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stays[rel] != "" || len(x.stays) == mostStays {
		return false
	}
	if x.stays == nil {
		x.stays = make(map[string]string)
	}
	x.stays[rel] = why
	return true
}

func (x *Extras) Kept(rel string) (why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stays[rel]
}

// Refused returns the reason why nothing may be deleted, or "". met counts the source's entries,
// and most limits the files to delete; it is 0 if nobody has set a limit.
func (x *Extras) Refused(source string, met, most int64) string {
	switch n, held := x.found.Load(), x.held.Load(); {
	case met == 0:
		return "the source " + source + " is empty"
	case most > 0 && n > most:
		return fmt.Sprintf("that would delete %d files, more than the %d that "+
			"transfer.SyncOptions.MaxDelete allows", n, most)
	case most <= 0 && n > fewDeleted && 2*n > held:
		return fmt.Sprintf("that would delete %d of %d files, more than half; "+
			"a transfer.SyncOptions.MaxDelete of %d allows it", n, held, n)
	}
	return ""
}

// IsEmpty reports whether there is nothing to delete.
func (x *Extras) IsEmpty() bool { return x.found.Load() == 0 && len(x.dirs) == 0 }

// Files returns the extra files and links, in batches, each of one directory.
func (x *Extras) Files() iter.Seq2[Lost, error] { return each(&x.files, unpackLost) }

// Dirs returns the extra directories: one list for each depth, the deepest first. Each list must be
// done before the next one.
func (x *Extras) Dirs() iter.Seq[iter.Seq2[Lost, error]] {
	return func(yield func(iter.Seq2[Lost, error]) bool) {
		for depth := len(x.dirs) - 1; depth >= 0; depth-- {
			if !yield(each(x.dirs[depth], unpackLost)) {
				return
			}
		}
	}
}

// A Facts is a directory of the target and the attributes that it gets after all deletions.
type Facts struct {
	Dir  string
	Info endpoint.Info
}

// Touch records the source's attributes of a directory that loses entries, and Open the mode of a
// directory that had to be opened. Touched and Opened return these records.
func (x *Extras) Touch(rel string, f *endpoint.Info) { x.touched.Add(rel, packFacts(f)) }
func (x *Extras) Open(rel string, was fs.FileMode) {
	x.opened.Add(rel, packFacts(&endpoint.Info{Mode: was}))
}
func (x *Extras) Touched() iter.Seq2[Facts, error] { return each(&x.touched, unpackFacts) }
func (x *Extras) Opened() iter.Seq2[Facts, error]  { return each(&x.opened, unpackFacts) }

// each decodes records with unpack.
func each[T any](records *spill.List, unpack func([]string) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for fields, err := range records.All() {
			var t T
			if err == nil {
				t, err = unpack(fields)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func unpackLost(fields []string) (Lost, error) {
	return Lost{fields[0], fields[1], fields[2:]}, nil
}

// packFacts encodes a directory's attributes as text.
func packFacts(f *endpoint.Info) string {
	return fmt.Sprintln(uint32(f.Mode), f.HasMode, f.Mtime.Unix(), f.Mtime.Nanosecond(),
		f.Atime.Unix(), f.Atime.Nanosecond(), f.HasTimes, f.Owner.UID, f.Owner.GID, f.Owner.Known)
}

func unpackFacts(fields []string) (Facts, error) {
	facts := Facts{Dir: fields[0]}
	f := &facts.Info
	var mode uint32
	var mtime, mtimeNano, atime, atimeNano int64
	_, err := fmt.Sscanln(fields[1], &mode, &f.HasMode, &mtime, &mtimeNano, &atime, &atimeNano,
		&f.HasTimes, &f.Owner.UID, &f.Owner.GID, &f.Owner.Known)
	f.Mode, f.Mtime, f.Atime = fs.FileMode(mode), time.Unix(mtime, mtimeNano),
		time.Unix(atime, atimeNano)
	return facts, err
}
