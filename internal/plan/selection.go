// Package plan decides how the entries of a tree are treated: which of them take part, how the
// target differs, and which of its entries are deleted. It sends no requests and reads no files:
// values go in, and an [Action] comes out, which a run carries out and a dry run reports.
package plan

import (
	"hash/maphash"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/samename"
)

// A Selection decides which entries of a tree take part. It is fixed once the tree is walked.
type Selection struct {
	filter.Rules
	List *List // nil if all do

	Began  time.Time     // when the run did
	MinAge time.Duration // files younger than this at Began are left out, unless it is 0

	// The run's own entries in the target, "" if there are none: a file in the target itself, and a
	// directory, relative to it. FoldsCase reports whether names that differ only in case are one
	// there.
	Lock, Backups string
	FoldsCase     func() bool
}

// Excludes reports whether an entry of a directory is left out, by its name or the rules of ignore
// files.
func (s *Selection) Excludes(dir, name string, isDir bool, ignore *filter.Ignore) bool {
	if dir == "." && s.own(name, s.Lock) {
		return true
	}
	if len(s.Rules) == 0 && s.Backups == "" && ignore == nil {
		return false // and no path is made for each of a million names
	}
	rel := path.Join(dir, name)
	return s.Rules.Exclude(rel, isDir) || ignore.Exclude(rel, isDir) ||
		s.own(rel, s.Backups)
}

// own reports whether a name is that of one of the run's own entries.
func (s *Selection) own(name, entry string) bool {
	return entry != "" && (name == entry ||
		strings.EqualFold(name, entry) && s.FoldsCase != nil && s.FoldsCase())
}

// IsYoung reports whether a file is too young to be copied.
func (s *Selection) IsYoung(f *endpoint.Info) bool {
	return s.MinAge > 0 && f.Mode.IsRegular() && f.HasTimes && f.Mtime.After(s.Began.Add(-s.MinAge))
}

// Of returns the Action for a file or a link in a copy.
func (s *Selection) Of(name string, f *endpoint.Info) Action {
	switch {
	case f.Mode.IsRegular() && localfs.IsTempName(name) && f.Mtime.After(s.Began.Add(-time.Second)):
		return Action{Do: Skip, Why: UnderWay}
	case s.IsYoung(f):
		return Action{Do: Skip, Why: Young}
	}
	return Action{Do: Copy}
}

// OfListed returns the Action for a file in a check; listed is set if its list has the name.
func OfListed(listed, strict bool) Action {
	switch {
	case listed:
		return Action{Do: Compare}
	case strict:
		return Action{Do: Fail, Why: Unlisted}
	}
	return Action{Do: Skip, Why: Unlisted}
}

// OfSought returns the Action for a name in a check's list that the walk did not meet; f and err
// are the answer to a look-up.
func OfSought(f *endpoint.Info, err error) Action {
	switch {
	case endpoint.IsAbsent(err):
		return Action{Do: Fail, Why: Missing}
	case err != nil:
		return Action{Do: Fail}
	case !f.Mode.IsRegular():
		return Action{Do: Fail, Why: NoFile}
	}
	return Action{Do: Compare}
}

// Two names of a source may be one at the target: file systems may ignore case (Windows, macOS,
// FAT), or how Unicode spells a letter (macOS, some of ZFS). They do not tell, and each directory
// may be another file system.

// Names are the names found in a directory of the source. The zero Names are empty.
type Names struct {
	exact map[string]bool

	// forms holds the names by a form shared by all names that some file system takes for one; names
	// of the same form are separated by zeros. In a large directory the later names are forgotten:
	// they become "".
	forms map[uint64]string
}

// mostNamesKept limits the names of a directory that are kept.
const mostNamesKept = 128 << 10

// mostTwins limits the names of one form that are kept: a hostile server may send any number.
const mostTwins = 16

// formSeed keeps others from preparing names whose forms have the same hash.
var formSeed = maphash.MakeSeed()

// AddExactly records a name, separately from Add. It returns false if it was recorded before.
func (n *Names) AddExactly(name string) bool {
	if n.exact[name] {
		return false
	}
	if n.exact == nil {
		n.exact = make(map[string]bool)
	}
	n.exact[name] = true
	return true
}

// Add records a name, and returns the names of the same form that were recorded before.
func (n *Names) Add(name string) (others []string) {
	form := maphash.String(formSeed, samename.Form(name))
	before, known := n.forms[form]
	if known {
		if others = strings.Split(before, "\x00"); slices.Contains(others, name) {
			return others
		}
		name = before + "\x00" + name
	} else if n.forms == nil {
		n.forms = make(map[uint64]string)
	}
	if len(n.forms) >= mostNamesKept || len(others) >= mostTwins {
		name = ""
	}
	n.forms[form] = name
	return others
}

// AreOne reports whether a directory takes two names for one, after [Names.Add] returned b for a.
// cases, letters and bytes report which differences the directory ignores. b is "" if it was
// forgotten.
func AreOne(a, b string, cases, letters, bytes func() (bool, error)) (bool, error) {
	forgotten := b == ""
	if decoded := samename.Decoded(a); strings.ContainsRune(decoded, utf8.RuneError) {
		one, err := bytes()
		if err != nil || one && forgotten || !forgotten && decoded == samename.Decoded(b) {
			return one, err
		}
		if one {
			a, b = decoded, samename.Decoded(b)
		}
	}
	switch {
	case !forgotten && norm.NFC.String(a) == norm.NFC.String(b):
		return letters()
	case !forgotten && samename.Fold(a) == samename.Fold(b):
		return cases()
	}
	if one, err := cases(); one == forgotten || err != nil {
		return one, err
	}
	return letters()
}
