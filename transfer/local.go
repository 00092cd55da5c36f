package transfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
)

// Local returns an endpoint for a path on this machine.
func Local(path string) Endpoint {
	return Endpoint{path: path,
		newSource: func(j *job) (source, error) { return &localSource{localEnd{j}}, nil },
		newTarget: func(j *job) (target, error) {
			return &localTarget{localEnd: localEnd{j}, placement: placement{new(quirks.Quirks), &j.options.Attributes}},
				nil
		}}
}

// localEnd is common to sources and targets on this machine.
type localEnd struct{ job *job }

func (localEnd) conn() *pool.Conn { return nil }

func (localEnd) join(dir, name string) string { return filepath.Join(dir, name) }

func (localEnd) identity(name string) (host, path string, ok bool) {
	path, err := filepath.Abs(name)
	return "", path, err == nil
}

// limits allows enough files at once to keep the processors busy with the kernel's work on names.
func (localEnd) limits() (limits, error) {
	return limits{handles: 1 << 20, listings: usualWalkers, files: 2 * runtime.GOMAXPROCS(0),
		queue: 256, small: largestSmall}, nil
}

func (localEnd) realPath(name string) (string, error) {
	name, err := filepath.EvalSymlinks(name) // first: Abs takes ".." for text
	if err == nil {
		name, err = filepath.Abs(name)
	}
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	return filepath.ToSlash(name), err
}

func (localEnd) lstat(name string) (f facts, err error) {
	info, err := os.Lstat(name)
	if err == nil {
		f = localFacts(info)
	}
	return f, err
}

func (localEnd) mark(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	return localfs.ID(info), nil
}

func (localEnd) fileSystem(name string) [2]uint64 { return localfs.FileSystemID(name) }

func (localEnd) touch(name string) (remove func() error, err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f.Close()
	return func() error { return os.Remove(name) }, nil
}

// listPiece is how many entries of a directory are read at a time.
const listPiece = 256

// eachEntry reads a directory until yield returns false. It looks at entries through the open
// directory, not by their paths: if the directory is renamed, or its file system unmounted, they
// would all seem to be gone. One that was really removed meanwhile has an error for fs.ErrNotExist.
func eachEntry(in *os.Root, yield func(name string, info fs.FileInfo, err error) bool) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(listPiece)
		for _, name := range names {
			info, err := in.Lstat(name)
			if !yield(name, info, err) {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func opened(f *os.File, err error) (io.ReaderAt, func(), error) {
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

// ignoreMissing returns err, or nil if it says that a file does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
