package usftp

import (
	"io"

	"github.com/usftp/usftp/wire"
)

// What one packet carries needs no arithmetic and no window: these are the READ and the WRITE of
// small pieces, which are many. They allocate nothing.

// readPacket reads what one READ may ask for. It does nothing where p is longer, and returns what
// came where that is less: the transfer loop knows what to make of it.
func (f *File) readPacket(open *openFile, p []byte, off int64) (int, error) {
	s := open.client
	if size, _ := s.dataSizes(); len(p) > size {
		return 0, nil
	}
	call := s.request(wire.TypeData)
	call.Request = wire.Read{Handle: open.handle, Offset: uint64(off),
		Length: uint32(len(p))}.Append(call.Scratch(), 0)
	call.Bytes = len(p)
	ctx, done := f.during(open)
	defer done()
	if err := s.conn.Do(ctx, call); err != nil {
		// the call may still be the connection's: it is not used again
		return 0, f.wrap("read", err)
	}
	defer s.conn.Recycle(call)
	switch {
	case call.Type == wire.TypeData && len(call.Body) > 0:
		return copy(p, call.Body), nil
	case call.Type == wire.TypeData:
		return 0, f.wrap("read", errNoData)
	case call.Status.Code == wire.EOF:
		return 0, io.EOF
	}
	return 0, f.wrap("read", replyError(call))
}

// writePacket writes what one WRITE may carry, or nothing where p is longer.
func (f *File) writePacket(open *openFile, p []byte, off int64) (int, error) {
	s := open.client
	if _, size := s.dataSizes(); len(p) > size {
		return 0, nil
	}
	s.changed(f.Name())
	defer s.changed(f.Name())
	call := s.request(wire.TypeStatus)
	call.Request = wire.Write{Handle: open.handle, Offset: uint64(off),
		Data: p}.AppendHeader(call.Scratch(), 0)
	call.Data = p
	call.Bytes = len(p)
	ctx, done := f.during(open)
	defer done()
	if err := s.conn.Do(ctx, call); err != nil {
		return 0, f.wrap("write", err)
	}
	defer s.conn.Recycle(call)
	if err := replyError(call); err != nil {
		return 0, f.wrap("write", err)
	}
	return len(p), nil
}
