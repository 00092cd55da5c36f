package localfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// A Renamer is an *os.Root or similar.
type Renamer interface {
	Lstat(name string) (fs.FileInfo, error)
	Chmod(name string, mode fs.FileMode) error
	Rename(from, to string) error
}

// Replace gives a file the name of another one, which may be read-only: the directory's permissions
// decide, as on Unix. Windows replaces such a file only once it can be written.
func Replace(in Renamer, from, to string) error {
	err := in.Rename(from, to)
	if runtime.GOOS != "windows" || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	was, lookErr := in.Lstat(to)
	if lookErr != nil || !was.Mode().IsRegular() || was.Mode()&0o200 != 0 ||
		in.Chmod(to, 0o666) != nil {
		return err
	}
	if err = in.Rename(from, to); err != nil {
		in.Chmod(to, was.Mode())
	}
	return err
}

// ReplacePrivate replaces a file by one that only its owner can read. The old file stays until the
// new one is complete.
func ReplacePrivate(name string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
