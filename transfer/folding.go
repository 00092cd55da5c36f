package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// Two names of a source may be one at the target: file systems may not care about case (Windows,
// macOS, FAT), or about how Unicode spells a letter (macOS, some of ZFS). The second would replace
// the first. Nobody says which do, and each directory may be another file system. So where a
// directory of the source has two such names, a file of this run's own finds it out, and the second
// is refused.

// areOne reports whether two names of the same form are one name in a directory of the target.
func (n *sourceNames) areOne(d *directory, a, b string, open func()) (bool, error) {
	cases := func() (bool, error) { return n.cases.ask(d, "a", "A", open) }
	letters := func() (bool, error) { return n.letters.ask(d, composed, decomposed, open) }
	switch {
	case b == "":
		if one, err := cases(); one || err != nil {
			return one, err
		}
		return letters()
	case norm.NFC.String(a) == norm.NFC.String(b):
		return letters()
	case localfs.FoldName(a) == localfs.FoldName(b):
		return cases()
	}
	if one, err := cases(); !one || err != nil {
		return one, err
	}
	return letters()
}

// errTwin says that a name is another one at the target, or that nobody knows.
func errTwin(other string, err error) error {
	what := "another one"
	if other != "" {
		what = strconv.QuoteToASCII(other)
	}
	what += ", which the source has, too"
	if err == nil {
		return endpoint.Explain("the target takes its name for "+what, fs.ErrExist)
	}
	return fmt.Errorf("the target may take its name for %s, and it cannot be found out: %w", what, err)
}

// A fold is whether names that differ in one way are one.
type fold struct {
	asked, is bool
	err       error // why nobody knows
}

func (f *fold) ask(d *directory, spelled, otherwise string, open func()) (bool, error) {
	if !f.asked {
		f.asked = true
		if open(); d.tree.inPlace(d) == nil {
			f.is, f.err = folds(&d.tree.into, d.rel, d.tree.copies.Token, spelled, otherwise)
		}
	}
	return f.is, f.err
}

// composed and decomposed are a letter in two spellings.
const (
	composed   = "\u00e9"
	decomposed = "e\u0301"
)

// folds finds out whether a name with one text in it is the same as one with the other, in a
// directory of the target.
func folds(into *targetDir, dir string, token localfs.TempToken,
	spelled, otherwise string) (is bool, err error) {
	name := token.Name(spelled)
	other := strings.Replace(name, spelled, otherwise, 1)
	name, other = path.Join(dir, name), path.Join(dir, other)
	if err := into.WriteSmall(name, nil, true); err != nil &&
		!errors.Is(err, endpoint.ErrRepeated) {
		return false, err
	}
	defer into.Remove(name, false)
	_, err = into.Lstat(other)
	if private.Untold(err) {
		if err = into.WriteSmall(other, nil, true); err == nil {
			into.Remove(other, false)
			return false, nil
		} else if endpoint.Refused(err) {
			return true, nil
		}
	}
	return err == nil, endpoint.IgnoreMissing(err)
}
