package server

import (
	"errors"
	"io"
	"io/fs"

	"github.com/usftp/usftp/wire"
)

// wrappedFile is a File within one that adds rules. It passes on what the rules do not concern.
type wrappedFile struct{ File }

func (f *wrappedFile) within() File { return f.File }

// unwrap returns the file within a wrapped one.
func unwrap(file File) (File, bool) {
	if wrapped, ok := file.(interface{ within() File }); ok {
		return wrapped.within(), true
	}
	return nil, false
}

func (f *wrappedFile) ReadAt(p []byte, offset int64) (int, error) {
	if reader, ok := f.File.(io.ReaderAt); ok {
		return reader.ReadAt(p, offset)
	}
	return 0, errUnsupported
}

func (f *wrappedFile) Stat() (fs.FileInfo, error) {
	if stater, ok := f.File.(FileStater); ok {
		return stater.Stat()
	}
	return nil, errUnsupported
}

func (f *wrappedFile) Hash(algorithm string, offset, length int64) ([]byte, error) {
	if hasher, ok := f.File.(FileHasher); ok {
		return hasher.Hash(algorithm, offset, length)
	}
	return nil, errors.ErrUnsupported
}

func (f *wrappedFile) Sync() error {
	if syncer, ok := f.File.(FileSyncer); ok {
		return syncer.Sync()
	}
	return errUnsupported
}

func (f *wrappedFile) StatVFS() (wire.StatVFSReply, error) {
	if stater, ok := f.File.(FileStatVFSer); ok {
		return stater.StatVFS()
	}
	return wire.StatVFSReply{}, errUnsupported
}
