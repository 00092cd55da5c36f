package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/usftp/usftp"
)

// A tree that is copied into itself has no end: what is copied is found again, and copied. A host
// may be this machine, or two hosts one, and nothing in SFTP tells (device and inode numbers do not
// travel). So where the target's path would lie in the source if both were on one machine, a file
// that is made at one end is looked for at the other.

// end is one end of a tree, for looking at paths.
type end struct{ client *usftp.Client } // nil for this machine

func (e end) real(name string) (string, error) {
	if e.client != nil {
		return e.client.RealPath(name)
	}
	name, err := filepath.Abs(name)
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	return filepath.ToSlash(name), err
}

func (e end) lstat(name string) error {
	var err error
	if e.client != nil {
		_, err = e.client.Lstat(name)
	} else {
		_, err = os.Lstat(name)
	}
	return err
}

// make makes an empty file, and returns what removes it.
func (e end) make(name string) (remove func(), err error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if e.client == nil {
		f, err := os.OpenFile(name, flags, 0o600)
		if err != nil {
			return nil, err
		}
		f.Close()
		return func() { os.Remove(name) }, nil
	}
	f, err := e.client.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	return func() { e.client.Remove(name) }, nil
}

// ends returns both ends of a tree that lie on machines of which one is a host; ok is false where
// none is.
func (t *treeRun) ends() (from, to end, ok bool) {
	switch t.Direction {
	case Upload:
		to.client = t.line.client()
	case Download:
		from.client = t.line.client()
	case Relay:
		from.client, to.client = t.from.client(), t.line.client()
	default:
		return from, to, false
	}
	return from, to, true
}

// liesIn returns where the target lies, if that would be in the source were both on one machine;
// else "". It takes one round trip.
func (t *treeRun) liesIn() string {
	from, to, ok := t.ends()
	if !ok {
		return ""
	}
	sourceAt := make(chan string, 1)
	go func() {
		source, _ := from.real(t.Source)
		sourceAt <- source
	}()
	target := path.Clean(filepath.ToSlash(t.Target))
	there, err := to.real(target)
	if err != nil { // not all that lies above it need be there, which making it will say
		if there, err = to.real(path.Dir(target)); err == nil {
			there = path.Join(there, path.Base(target))
		}
	}
	source := <-sourceAt
	if base, baseErr := t.base(); baseErr == nil && path.Join(there, base) == source {
		return source // it would be copied to itself
	}
	if err != nil || source == "" || there != source &&
		!strings.HasPrefix(there, strings.TrimRight(source, "/")+"/") {
		return ""
	}
	return there
}

// notInside makes sure that a tree is not copied into itself, before anything is made. at is what
// liesIn has returned.
func (t *treeRun) notInside(at string) error {
	from, to, ok := t.ends()
	if at == "" || !ok {
		return nil
	}
	if t.from != nil && t.from == t.line {
		return errIntoItself
	}
	if t.TreeOptions.DryRun {
		return nil
	}
	remove, err := func() {}, fs.ErrNotExist
	probe := ""
	for dir := at; err != nil; dir = path.Dir(dir) {
		probe = path.Join(dir, temporaryName("probe"))
		if remove, err = to.make(probe); !errors.Is(err, fs.ErrNotExist) || dir == path.Dir(dir) {
			break
		}
	}
	if err != nil {
		return nil // to write there will say why
	}
	defer remove()
	if err := from.lstat(probe); err == nil {
		return errIntoItself
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isUnderWay reports whether an entry is a temporary file of this run, or of another that is under
// way. Where the source and the target are one directory under two names it is met in the walk.
func (t *treeRun) isUnderWay(name string, mtime time.Time) bool {
	_, random, found := strings.Cut(name, temporaryMark)
	return found && strings.HasPrefix(name, ".") && len(random) == 2*randomBytes &&
		strings.Trim(random, "0123456789abcdef") == "" && mtime.After(t.began.Add(-time.Second))
}
