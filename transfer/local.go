package transfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/usftp/usftp"
)

// localTarget is where a download goes. All that is written lies in root, the directory that holds
// the target: links in the name that the person gave are followed, below it none are.
type localTarget struct {
	path string // for people
	root *os.Root
	name string // in root
	// what the person or the source calls it: where that is a link, not the name of what it leads
	// to
	called    string
	before    fs.FileInfo // what is there, nil where nothing is
	direct    bool        // it can only be written as it is
	temporary string      // in root; "" where the target itself is written
	file      *os.File
	free      func() // ends what watches over file, where that may wait
	release   func() // of root, where it is a tree's
}

func (t *localTarget) close() {
	if t.free != nil {
		t.free()
	}
	if t.release != nil {
		t.release()
		return
	}
	t.root.Close()
}

// written is the name of what is being written.
func (t *localTarget) written() string {
	if t.temporary != "" {
		return t.temporary
	}
	return t.name
}

// again returns what opens a file beside the target for reading, nil where the target is none that
// can be read anywhere.
func (t *localTarget) again(name string) reopen {
	if t.before != nil && !t.before.Mode().IsRegular() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) { return opened(t.root.Open(name)) }
}

func (t *localTarget) join(name string) string { return filepath.Join(filepath.Dir(t.path), name) }

// findLocal looks at the target: a directory is entered, a symbolic link is followed.
func findLocal(target, base string) (*localTarget, error) {
	name := target
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		name = filepath.Join(name, base)
		info, err = os.Stat(name)
		if err == nil && info.IsDir() {
			return &localTarget{path: name}, &fs.PathError{Op: "write", Path: name,
				Err: ErrIsDirectory}
		}
	} else if os.IsPathSeparator(lastByte(target)) {
		if err == nil {
			err = &fs.PathError{Op: "write", Path: target, Err: errors.New("it is not a directory")}
		}
		return &localTarget{path: target}, err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &localTarget{path: name}, err
	}
	resolved, err := followLinks(name)
	if err != nil {
		return &localTarget{path: name}, err
	}
	t := &localTarget{path: resolved, name: filepath.Base(resolved), called: filepath.Base(name),
		before: info}
	if info != nil {
		t.direct = !info.Mode().IsRegular() || links(info) > 1
	}
	t.root, err = os.OpenRoot(filepath.Dir(resolved))
	if err != nil {
		return t, err
	}
	return t, nil
}

func lastByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[len(s)-1]
}

// maxLinks is how many symbolic links Linux follows in one name.
const maxLinks = 40

// followLinks returns what a chain of symbolic links leads to, which need not exist.
func followLinks(name string) (string, error) {
	for range maxLinks {
		info, err := os.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil
		}
		to, err := os.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return "", &fs.PathError{Op: "write", Path: name, Err: errors.New("too many symbolic links")}
}

// createLocal creates what a download writes.
func (r *run) createLocal(t *localTarget, before *usftp.FileStat) error {
	return r.createFile(t, statFacts(before))
}

// createFile creates the temporary file, or opens the target where that is asked for or has to be.
func (r *run) createFile(t *localTarget, source facts) (err error) {
	perm := fs.FileMode(0o666)
	if source.hasMode {
		perm = source.mode.Perm()
	}
	if !t.direct && r.mayReplace() {
		private := perm
		if t.before != nil || r.Options.Preserve {
			private = 0o600
		}
		temporary := temporaryName(t.name)
		r.noteBefore(t.path, t.join(temporary))
		t.file, err = t.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		r.temporary = temporary // os.Root names files by their path in it
		if err == nil {
			t.temporary = temporary
			return nil
		}
		if r.Options.Placement == Atomic || !nameRefused(err) {
			return r.notCreated(err)
		}
	}
	if r.Options.Placement == Atomic {
		return &fs.PathError{Op: "replace", Path: t.path,
			Err: errors.New("it is no regular file of one name, and can only be written in place")}
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if t.before != nil && !t.before.Mode().IsRegular() {
		flags = os.O_WRONLY
	}
	if r.item != nil {
		t.file, err = t.openBelow(perm)
	} else {
		t.file, err = openWaiting(r.ctx, func() (*os.File, error) {
			return t.root.OpenFile(t.name,
				flags, perm)
		})
	}
	if err == nil && t.before != nil && !t.before.Mode().IsRegular() {
		t.free = interruptible(r.ctx, t.file)
	}
	if err == nil && r.Options.Placement != InPlace &&
		(t.before == nil || t.before.Mode().IsRegular()) {
		if t.direct {
			r.note("the target has other names (hard links): it is written in place")
		} else {
			r.noTemporary(t.before == nil)
		}
	}
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = &fs.PathError{Op: path.Op, Path: t.path, Err: path.Err}
		}
	}
	return err
}
