package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/plan"
	"github.com/usftp/usftp/internal/private"
)

// If two names of a source are the same to the target, the second would replace the first. So if a
// source directory has two such candidates, a file of this run's own tests the target, and the
// second is refused.

// sourceNames are the names found in a directory of the source, and the ways the target folds them.
type sourceNames struct {
	plan.Names
	cases, letters, bytes fold
}

// isOne reports whether the target takes an entry's name for another of the same form. It calls
// open before it makes a file to find out.
func (e *entry) isOne(other string, open func()) (bool, error) {
	d := e.dir
	return plan.AreOne(e.name, other,
		func() (bool, error) { return d.names.cases.ask(d, "a", "A", open) },
		func() (bool, error) { return d.names.letters.ask(d, composed, decomposed, open) },
		func() (bool, error) { return d.names.bytes.ask(d, "\xff", "\xfe", open) })
}

// warnOfName warns, once for a host, if it changes an entry's name, which is not UTF-8.
func (e *entry) warnOfName(open func()) {
	d, t := e.dir, e.dir.tree
	if t.dst.Conn() == nil || t.options.DryRun || t.dst.Quirks().AskedNames.Swap(true) {
		return
	}
	if changed, _ := d.names.bytes.ask(d, "\xff", "\xfe", open); changed {
		t.warn(e.source(), e.target(), "the host replaces what is not UTF-8 in names, so it has "+
			"another name there (reported once for all files of the host)")
	}
}

// errTwin says that the target takes a name for another, or that it may.
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

// A fold is whether names that differ in one way are the same.
type fold struct {
	asked, is bool
	err       error // why it is unknown
}

func (f *fold) ask(d *directory, spelled, otherwise string, open func()) (bool, error) {
	if !f.asked && !d.tree.options.DryRun { // which makes no file to find out with
		f.asked = true
		if open(); d.tree.inPlace(d) == nil {
			f.is, f.err = folds(d.tree, d.rel, spelled, otherwise)
		}
	}
	return f.is, f.err
}

// composed and decomposed are a letter in two spellings.
const (
	composed   = "\u00e9"
	decomposed = "e\u0301"
)

// folds finds out whether a target directory takes a name with one spelling in it for the name with
// the other. It waits for a handle, which its file needs.
func folds(t *tree, dir, spelled, otherwise string) (is bool, err error) {
	err = t.copies.Budget.Hold(t.ctx, func() (err error) {
		is, err = foldsNow(t, dir, spelled, otherwise)
		return err
	})
	return is, err
}

func foldsNow(t *tree, dir, spelled, otherwise string) (is bool, err error) {
	into, name := &t.into, t.copies.Token.Name(spelled)
	other := strings.Replace(name, spelled, otherwise, 1)
	name, other = path.Join(dir, name), path.Join(dir, other)
	if err := into.WriteSmall(name, nil, endpoint.Create); err != nil &&
		!errors.Is(err, endpoint.ErrRepeated) {
		return false, err
	}
	defer into.Remove(name, false)
	_, err = into.Lstat(other)
	if private.Untold(err) {
		if err = into.WriteSmall(other, nil, endpoint.Create); err == nil {
			into.Remove(other, false)
			return false, nil
		} else if endpoint.Refused(err) {
			return true, nil
		}
	}
	return err == nil, endpoint.IgnoreMissing(err)
}
