package server

import (
	"errors"
	"io"
	"math"

	"github.com/usftp/usftp/wire"
)

// copyData answers copy-data (draft-ietf-secsh-filexfer-extensions-00, section 7).
func (s *session) copyData(r *request) error {
	from, to := r.handle, r.target
	if from.readerAt == nil || to.writerAt == nil {
		return errBadHandle
	}
	if err := to.failed(); err != nil {
		return err
	}
	length := r.length
	if length == 0 {
		length = math.MaxInt64
	}
	if r.offset > math.MaxInt64 || r.toOffset > math.MaxInt64 {
		return &StatusError{Code: wire.BadMessage, Message: "offset out of range"}
	}
	length = min(length, math.MaxInt64-r.offset, math.MaxInt64-r.toOffset)
	// OpenSSH's server refuses to copy within one file where the ranges meet: what is read would be
	// what was written.
	if from == to && r.offset < r.toOffset+length && r.toOffset < r.offset+length {
		return &StatusError{Code: wire.Failure, Message: "the ranges overlap"}
	}
	n, err := s.copyRange(r, int64(length))
	from.bytesRead.Add(uint64(n))
	to.bytesWritten.Add(uint64(n))
	if err != nil {
		to.failWrites(err)
		return err
	}
	// A length that was asked for must be there, as with OpenSSH's server.
	if r.length != 0 && uint64(n) < r.length {
		return io.EOF
	}
	return nil
}

func (s *session) copyRange(r *request, length int64) (int64, error) {
	if copier, ok := r.target.file.(FileCopier); ok {
		n, err := copier.CopyFrom(s.ctx, r.handle.file, int64(r.offset), length, int64(r.toOffset))
		if !errors.Is(err, errors.ErrUnsupported) {
			return n, err
		}
	}
	var done int64
	for done < length {
		if err := s.ctx.Err(); err != nil {
			return done, err
		}
		piece := r.reply.Bytes()[:min(length-done, wire.MaxData)]
		n, readErr := r.handle.readerAt.ReadAt(piece, int64(r.offset)+done)
		if n > 0 {
			written, err := r.target.writerAt.WriteAt(piece[:n], int64(r.toOffset)+done)
			done += int64(max(written, 0))
			if err == nil && written < n {
				err = io.ErrShortWrite
			}
			if err != nil {
				return done, err
			}
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return done, readErr
		}
		if n == 0 {
			return done, io.ErrNoProgress
		}
	}
	return done, nil
}
