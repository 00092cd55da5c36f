package usftp

import (
	"fmt"
	"io"

	"github.com/usftp/usftp/internal/private/hook"
)

// losesWrites implements private.Client.LosesWrites.
//
// write(2) may write only the beginning of what it is given, if there is no room for the rest.
// OpenSSH's server and ours look at how much it was; ProFTPD, AsyncSSH, Twisted, Apache MINA,
// Maverick and programs that use ssh2 for Node.js acknowledge the WRITE all the same.
func (s *session) losesWrites() bool {
	version := s.options.serverVersion
	return !s.inOrder && !isOurs(version) && !readsOnce(version)
}

// StartStored implements private.File.
func (f privateFile) StartStored(size int64) (prove func() error) {
	s := f.Client().session
	if size == 0 || !s.losesWrites() || s.wrongSizes.Load() {
		return func() error { return nil }
	}
	if _, err := f.opened("write", 0); err != nil {
		return func() error { return err }
	}
	asked := f.Async().Stat()
	return func() error {
		stat, err := asked.WaitContext(f.ctx)
		if err != nil { // the server may have closed the file first: by its name
			stat, err = f.Async().Stat().WaitContext(f.ctx)
		}
		if err = f.Client().fatal(err); err != nil {
			return err
		}
		if stat == nil || !stat.sized() || int64(stat.Size) >= size {
			return nil
		}
		return f.lacks(int64(stat.Size), size)
	}
}

// lacks fails if a closed file, which seemed to have too few bytes, ends before its last byte. Some
// servers tell other sizes than they store, or write when a file is closed.
func (f *File) lacks(has, size int64) error {
	closed, err := f.Client().WithContext(f.ctx).Open(f.Name())
	if err != nil {
		return f.Client().fatal(err) // otherwise nothing shows it
	}
	defer closed.Close()
	switch _, err := closed.ReadAt(make([]byte, 1), size-1); err {
	default:
		return f.Client().fatal(err)
	case io.EOF:
		return f.wrap("write", fmt.Errorf("%w: it has %d of %d bytes", hook.ErrNotStored, has, size))
	case nil:
		f.Client().differs(&f.Client().wrongSizes, "it tells wrong sizes of files that are written")
	}
	return nil
}
