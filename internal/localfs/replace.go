package localfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// A Renamer is an *os.Root or similar.
type Renamer interface {
	Lstat(name string) (fs.FileInfo, error)
	Chmod(name string, mode fs.FileMode) error
	Rename(from, to string) error
}

// busyFor is how long Replace waits for a file that another program has open.
const busyFor = time.Second

// Replace gives a file the name of another one, which may be read-only: the directory's permissions
// decide, as on Unix. Windows replaces such a file only once it can be written.
func Replace(in Renamer, from, to string) error {
	err := in.Rename(from, to)
	if !isBusy(err) {
		return err
	}
	was, lookErr := in.Lstat(to)
	if lookErr == nil && !was.Mode().IsRegular() {
		return err
	}
	readOnly := lookErr == nil && was.Mode()&0o200 == 0
	if readOnly && in.Chmod(to, 0o666) != nil {
		return err
	}
	err = renameBusy(func() error { return in.Rename(from, to) })
	if err != nil && readOnly {
		in.Chmod(to, was.Mode())
	}
	return err
}

// ReplaceFile works like Replace for files in any directory.
func ReplaceFile(from, to string) error { return Replace(anywhere{}, from, to) }

type anywhere struct{}

func (anywhere) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(name) }
func (anywhere) Chmod(name string, mode fs.FileMode) error { return os.Chmod(name, mode) }
func (anywhere) Rename(from, to string) error              { return os.Rename(from, to) }

// renameBusy calls rename again for a while if Windows refuses it. On most file systems Windows
// replaces no file that is open, and virus scanners, indexers and listings open files for a moment.
func renameBusy(rename func() error) error {
	for end := time.Now().Add(busyFor); ; time.Sleep(10 * time.Millisecond) {
		if err := rename(); !isBusy(err) || time.Now().After(end) {
			return err
		}
	}
}

// isBusy reports whether an error may mean that a file is open. Windows returns the same errors for
// read-only files and for missing permission.
func isBusy(err error) bool {
	const sharingViolation = syscall.Errno(32)
	return runtime.GOOS == "windows" &&
		(errors.Is(err, fs.ErrPermission) || errors.Is(err, sharingViolation))
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
		err = ReplaceFile(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
