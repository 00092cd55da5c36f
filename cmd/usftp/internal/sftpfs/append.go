//go:build linux || darwin

package sftpfs

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/usftp/usftp"
)

// lateTime is how long a host may take to carry out a request from a lost connection: its server
// may have the request already, and be slower than the next login.
const lateTime = 2 * time.Second

// sendAppend appends an extent and waits for the answer. The host decides where the end is, so that
// data appended by others is not overwritten. The caller holds the handle's turn.
func (f *file) sendAppend(ctx context.Context, e *extent) error {
	h := e.handle
	if e.lost.IsZero() {
		f.mu.Lock()
		e.from = f.remoteSize
		f.mu.Unlock()
		// For servers that ignore the append flag, as pkg/sftp's does, and write at the offset. Write
		// asks most of them where the file ends: others may have appended, or cut it.
		_, err := h.remote.Seek(e.from, io.SeekStart)
		if f.fs.quirks.NoAppend.Load() {
			_, err = h.remote.Seek(0, io.SeekEnd)
		}
		if err == nil {
			_, err = h.remote.Write(e.data)
		}
		if err == nil {
			end, _ := h.remote.Seek(0, io.SeekCurrent)
			f.reaches(end)
		}
		if !lost(err) || e.ends(err) {
			f.answered(e, err)
			return nil
		}
		e.lost = time.Now() // kept for the next call if this one does not wait for a connection
	}
	// The data may have arrived or not. It has if the file grew by exactly its length and ends with
	// it.
	remote, err := h.open(ctx)
	if err != nil {
		return err
	}
	size := h.size
	if late := time.Until(e.lost.Add(lateTime)); size == e.from && late > 0 {
		select {
		case <-time.After(late):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		info, err := remote.Stat()
		if lost(err) {
			return nil // next asks again
		} else if err != nil {
			return err
		}
		size = info.Size()
	}
	arrived := size - e.from
	switch {
	case arrived == 0:
		e.lost = time.Time{} // next sends it again
		return nil
	case arrived == int64(len(e.data)), leastPart <= arrived && arrived < int64(len(e.data)):
		held, err := f.holds(ctx, e.data[:arrived], e.from)
		if err != nil {
			return err
		}
		if held {
			f.reaches(size)
			f.arrivedInPart(e, int(arrived))
			return nil
		}
	}
	f.answered(e, errors.New(
		"the connection was lost while data was appended, and others have appended too"))
	return nil
}

// leastPart is how much of lost data must have been appended to count as a part that a killed server
// has left: less may be what another program has appended, and a server leaves whole pages.
const leastPart = 4096

// arrivedInPart handles the arrival of the beginning of an appended extent. The rest is sent next.
func (f *file) arrivedInPart(e *extent, n int) {
	f.mu.Lock()
	if n == len(e.data) || e.done {
		f.mu.Unlock()
		f.answered(e, nil)
		return
	}
	e.data, e.off, e.lost = e.data[n:], e.off+int64(n), time.Time{}
	f.mu.Unlock()
	f.fs.budget.put(n)
}

// holds reports whether the file on the host contains data at an offset.
func (f *file) holds(ctx context.Context, data []byte, off int64) (bool, error) {
	got := make([]byte, len(data))
	err := f.fs.onPath(ctx, f.node, func(c *usftp.Client, path string, _ bool) error {
		remote, err := c.Open(path)
		if err != nil {
			return err
		}
		defer remote.Close()
		_, err = remote.ReadAt(got, off)
		return err
	})
	if err != nil && undecided(err) {
		return false, err
	}
	return err == nil && string(got) == string(data), nil
}
