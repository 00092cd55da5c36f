package usftp

import (
	"fmt"
	"io"

	"github.com/usftp/usftp/internal/private/hook"
	"github.com/usftp/usftp/wire"
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

// wrote notes that the server has acknowledged n bytes at an offset.
func (o *openFile) wrote(off, n int64) {
	end := off + n
	for has := o.end.Load(); n > 0 && has < end && !o.end.CompareAndSwap(has, end); {
		has = o.end.Load()
	}
}

// made returns how long an open file is at least, or 0 if that is not known: if it was not empty
// when it was opened others may use it, too, and the caller may have cut it.
func (o *openFile) made() int64 {
	if o == nil || o.flags&(wire.OpenTruncate|wire.OpenExclusive) == 0 ||
		o.cuts != o.client.cuts.Load() {
		return 0
	}
	return o.end.Load()
}

// StartStored implements private.File.
func (f privateFile) StartStored(size int64) (prove func() error) {
	open, err := f.opened("write", 0)
	if err != nil {
		return func() error { return err }
	}
	return f.startStored(open, size)
}

// startStored is StartStored for an opening that the file may have let go.
func (f *File) startStored(open *openFile, size int64) (prove func() error) {
	if size == 0 || !open.client.losesWrites() || open.client.wrongSizes.Load() {
		return func() error { return nil }
	}
	asked := start(f.ctx, f.statOpen(open))
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
