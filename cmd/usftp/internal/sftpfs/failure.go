//go:build linux || darwin

package sftpfs

import "sync"

// A failure to write data of one handle, and the program's calls that have returned it. One call is
// not enough: the kernel drops the error of a failed part of a write after a part that succeeded,
// and a forked child may have made the close.
type failure struct {
	mu               sync.Mutex
	err              error // nil if there is nothing to report
	byWrite, byClose bool  // these calls have returned it
}

// set replaces any earlier failure.
func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.byWrite, f.byClose = err, false, false
}

// forWrite returns the error if no call has returned it. A write after a close clears it.
func (f *failure) forWrite() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.byClose:
		f.err = nil
	case !f.byWrite:
		f.byWrite = true
		return f.err
	}
	return nil
}

// forClose returns the error, as each close does.
func (f *failure) forClose() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byClose = true
	return f.err
}

// forFsync returns the error and clears it.
func (f *failure) forFsync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.err
	f.err = nil
	return err
}

// remains reports whether there is an error that nothing has cleared.
func (f *failure) remains() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}
