package plan

import (
	"path"
	"strings"
	"sync/atomic"
)

// A List is the part of a list of names that lies in and below one directory of a tree.
type List struct {
	below  map[string]*List
	named  bool // the directory itself is named, not only a name below it
	inside bool // so are its entries
	whole  bool // so is everything below it

	found atomic.Bool // it was seen in the source
	read  atomic.Bool // all its entries were
}

// NewList returns the List of the source itself. The names are relative to it; one that ends in a
// slash also names a directory's entries, and with recursive each names everything below.
func NewList(names []string, recursive bool) *List {
	top := new(List)
	for _, name := range names {
		at := top
		for element := range strings.SplitSeq(path.Clean("/" + name)[1:], "/") {
			if element == "" {
				continue
			}
			next := at.below[element]
			if next == nil {
				if at.below == nil {
					at.below = make(map[string]*List)
				}
				next = new(List)
				at.below[element] = next
			}
			at = next
		}
		at.named = true
		at.inside = at.inside || strings.HasSuffix("/"+name, "/") || strings.HasSuffix("/"+name, "/.")
		at.whole = at.whole || recursive
	}
	top.found.Store(true)
	return top
}

// In returns the List of a directory, or nil if no name is in it; all reports whether everything in
// it is named.
func (l *List) In(dir string) (at *List, all bool) {
	at = l
	if dir != "." {
		for element := range strings.SplitSeq(dir, "/") {
			if at == nil || at.whole {
				break
			}
			at = at.below[element]
		}
	}
	return at, at != nil && at.whole
}

// IsNamed reports whether the directory itself is named.
func (l *List) IsNamed() bool { return l.named }

// Takes reports whether an entry of the directory takes part: it is named, or leads to a name. leads
// says that it is a directory, or a link that is followed. named is nil if no name begins with it.
func (l *List) Takes(name string, leads bool) (named *List, ok bool) {
	named = l.below[name]
	return named, l.inside || named != nil && (named.named || leads)
}

// Found records that the source has it.
func (l *List) Found() { l.found.Store(true) }

// Read records that all of a directory was listed.
func (l *List) Read(dir string) {
	if at, _ := l.In(dir); at != nil {
		at.read.Store(true)
	}
}

// Missing calls yield for each name that was not found. excused reports whether the reason is
// known: its directory is copied whole, or was found and left out or failed.
func (l *List) Missing(yield func(rel string, excused bool)) { l.missing(".", false, yield) }

func (l *List) missing(rel string, excused bool, yield func(rel string, excused bool)) {
	if l.named && !l.found.Load() {
		yield(rel, excused)
	}
	excused = excused || l.whole || l.found.Load() && !l.read.Load()
	for name, next := range l.below {
		next.missing(path.Join(rel, name), excused, yield)
	}
}
