package transfer

import (
	"cmp"
	"errors"
	"io/fs"
	"path"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
)

// A targetDir is the directory that a tree is copied to, and what lies below it.
type targetDir struct {
	path string
	endpoint.Root
	within string // the copy's name in the directory that was named as the target, or ""
	exists bool   // known to
	made   bool   // by begin
}

// entries lists a directory of the target. It calls reset when the listing starts over.
func (t *targetDir) entries(dir string, reset func(),
	yield func(name string, f *endpoint.Info) error) error {
	var failed error
	err := t.List(dir, nil, reset, func(name string, i endpoint.Info, err error) bool {
		if failed = endpoint.IgnoreMissing(err); err == nil {
			failed = yield(name, &i)
		}
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// openDir adds all permissions of the owner to a directory's mode, if it is still where it was, and
// returns the mode that the directory had. changed may be true even if it failed.
func (t *targetDir) openDir(dir string) (was fs.FileMode, changed bool, err error) {
	i, err := t.LookDir(dir)
	if err != nil || !i.HasMode || i.Mode&0o700 == 0o700 {
		return was, false, err
	}
	return i.Mode, true, t.setMode(dir, i.Mode|0o700)
}

// restoreDir gives a directory the mode back that openDir returned.
func (t *targetDir) restoreDir(dir string, mode fs.FileMode) error {
	_, err := t.LookDir(dir)
	if err == nil {
		err = t.setMode(dir, mode)
	}
	return err
}

// setMode sets a directory's mode.
func (t *targetDir) setMode(dir string, mode fs.FileMode) error {
	_, err := t.SetAttrs(dir, fs.ModeDir, false,
		usftp.NewAttrs{SetMode: true, Mode: mode &^ fs.ModeType})
	return err
}

// leave closes a directory after the walk, and those above it, which nobody else uses.
func (t *targetDir) leave(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		t.Leave(dir)
	}
}

// mkdirAll makes a directory and those above it.
func (t *targetDir) mkdirAll(dir string) error {
	_, err := t.Mkdir(dir, 0o777)
	if above := path.Dir(dir); errors.Is(err, fs.ErrNotExist) && above != "." {
		if err = t.mkdirAll(above); err == nil {
			_, err = t.Mkdir(dir, 0o777)
		}
	}
	return err
}
