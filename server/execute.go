package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/usftp/usftp/server/internal/whole"
	"github.com/usftp/usftp/wire"
)

// worker runs requests. It has a buffer for short replies.
type worker struct {
	scratch [shortReply]byte
	alone   bool    // it belongs to the reader, which runs requests when nothing else runs
	next    *worker // in the session's list
}

// execute runs a request, queues its reply, and releases the request's buffer.
func (w *worker) execute(s *session, r *request) {
	defer s.caught()
	s.active.Begin()
	defer s.active.End()
	r.repeated = r.failsAgain()
	switch r.op {
	case opRead:
		w.read(s, r)
	case opWrite:
		err := s.write(r)
		if r.wrote = err == nil; r.handle.turns.sum == nil {
			s.releasePacket(r.own)
			r.own = nil
		}
		w.status(s, r, err)
		s.releasePacket(r.own)
		r.own = nil
	default:
		w.executeRare(s, r)
		s.releasePacket(r.own)
		r.own = nil
	}
}

// failsAgain reports whether a request will fail like an earlier one on its handle.
func (r *request) failsAgain() bool {
	h := r.handle
	switch r.op {
	case opCopyData:
		h = r.target
	case opWrite, opFsync, opClose, opAbandon:
	default:
		return false
	}
	return h.failed() != nil
}

// refuse answers an invalid request.
func (w *worker) refuse(s *session, r *request) {
	defer s.caught()
	s.releasePacket(r.own)
	r.own = nil
	w.status(s, r, r.bad)
}

// executeRare executes all requests but READ and WRITE.
func (w *worker) executeRare(s *session, r *request) {
	ctx, v := s.ctx, s.view
	if r.op != opCheckFileName { // which also hashes, in turns of its own
		end, err := s.beginLong(r)
		if err != nil {
			w.status(s, r, err)
			return
		}
		defer end()
	}
	if r.beneath != nil {
		ctx = WithBeneath(ctx, r.beneath.top)
	}
	switch r.op {
	case opOpen:
		w.open(ctx, s, r)
	case opOpendir:
		w.opendir(ctx, s, r)
	case opReaddir:
		w.readdir(s, r)
	case opClose:
		w.status(s, r, s.close(r.handle, nil))
	case opStat:
		info, err := v.Stat(ctx, r.path)
		w.attrs(s, r, info, err)
	case opLstat:
		info, err := v.Lstat(ctx, r.path)
		w.attrs(s, r, info, err)
	case opUploads:
		info, err := v.Upload(ctx, r.path)
		w.attrs(s, r, info, err)
	case opFstat:
		info, err := s.fstat(r.handle)
		w.attrs(s, r, info, err)
	case opSetstat:
		w.status(s, r, v.Setstat(ctx, r.path, r.attrs))
	case opLsetstat:
		w.status(s, r, v.Lsetstat(ctx, r.path, r.attrs))
	case opFsetstat:
		w.status(s, r, s.fsetstat(r))
	case opRemove:
		w.status(s, r, v.Remove(ctx, r.path))
	case opRmdir:
		w.status(s, r, v.Rmdir(ctx, r.path))
	case opMkdir:
		w.status(s, r, v.Mkdir(ctx, r.path, r.attrs))
	case opRename:
		w.status(s, r, v.Rename(ctx, r.path, r.path2))
	case opSymlink:
		w.status(s, r, v.Symlink(ctx, r.text, r.path))
	case opReadlink:
		target, err := v.Readlink(ctx, r.path)
		w.name(s, r, target, err)
	case opRealpath:
		name, err := v.RealPath(ctx, r.path)
		w.name(s, r, name, err)
	default:
		w.extended(ctx, s, r)
	}
}

// status queues a STATUS. It releases any buffer lent for a longer reply.
func (w *worker) status(s *session, r *request, err error) {
	if err != nil && !r.repeated {
		s.refused(r, err)
	}
	w.short(s, r, statusOf(err).Append(w.scratch[:0], r.id))
}

// short queues a short reply, which is copied.
func (w *worker) short(s *session, r *request, reply []byte) {
	if r.reply != nil {
		s.releasePacket(r.reply)
		r.reply = nil
	}
	s.deliver(r, reply, nil)
}

// send queues a reply built in the buffer lent for it.
func (w *worker) send(s *session, r *request, reply []byte) {
	b := r.reply
	if len(reply) > len(b.Bytes()) {
		w.status(s, r, errLongReply) // the backend's answer does not fit
		return
	}
	r.reply = nil
	b.End = len(reply)
	s.deliver(r, nil, b)
}

// reply queues a reply built in the buffer lent for it, or a STATUS.
func (w *worker) reply(s *session, r *request, reply interface {
	Append(b []byte, id uint32) []byte
}, err error) {
	if err != nil {
		w.status(s, r, err)
		return
	}
	w.send(s, r, reply.Append(r.reply.Bytes()[:0], r.id))
}

func (w *worker) attrs(s *session, r *request, info fs.FileInfo, err error) {
	if err != nil {
		w.status(s, r, err)
		return
	}
	w.short(s, r, wire.AttrsReply{Attrs: plainAttrs(info)}.Append(w.scratch[:0], r.id))
}

// plainAttrs returns AttrsOf without extended attributes, which can have any length and no client
// uses.
func plainAttrs(info fs.FileInfo) wire.Attrs {
	attrs := AttrsOf(info)
	attrs.Extended, attrs.Flags = nil, attrs.Flags&^wire.AttrExtended
	return attrs
}

// name answers with one path (draft-02, sections 6.10 and 6.11: a NAME with one entry and dummy
// attributes).
func (w *worker) name(s *session, r *request, name string, err error) {
	if err == nil && len(name) > maxPath {
		err = errLongPath
	}
	if err != nil {
		w.status(s, r, err)
		return
	}
	b := wire.BeginNames(r.reply.Bytes()[:0], r.id)
	b = (&wire.Name{Filename: name, LongName: name}).Append(b)
	w.send(s, r, wire.FinishNames(b, 0, 1))
}

// read answers READ. It reads into the buffer that is sent, after the space for the header. A read
// may be short at the end of the file (draft-02, section 6.4); clients repeat any other short read.
func (w *worker) read(s *session, r *request) {
	if w.alone && r.handle.raw != nil && s.relay != nil && r.length >= relayLeast &&
		s.view.downloads == nil && w.readRelayed(s, r) {
		return
	}
	n, err := s.readAt(r)
	if n == 0 && err == nil {
		err = io.ErrNoProgress
	}
	if n == 0 && err != nil {
		w.status(s, r, err)
		return
	}
	b := r.reply
	r.reply = nil
	data := b.Bytes()[wire.DataHeaderSize : wire.DataHeaderSize+n]
	wire.Data{Data: data}.AppendHeader(b.Bytes()[:0], r.id)
	b.End = wire.DataHeaderSize + n
	s.deliver(r, nil, b)
}

// readRelayed reads through the relay. It reports whether it has answered.
func (w *worker) readRelayed(s *session, r *request) bool {
	if r.offset > math.MaxInt64-r.length {
		return false
	}
	n, err := s.relay.load(r.handle.raw, int64(r.offset), int(r.length))
	if n == 0 {
		if err != nil {
			r.handle.raw = nil // its file system does not support it; raw has no other use
		}
		return false
	}
	s.releasePacket(r.reply)
	r.reply = nil
	header := wire.AppendDataHeader(w.scratch[:0], r.id, n)
	r.handle.moved.Add(int64(n), 0)
	// Nothing else runs, so it is this reply's turn.
	s.answering.Add(1)
	err = s.out.sendRelayed(header, s.relay, n)
	s.answering.Add(-1)
	if err != nil {
		s.end(fmt.Errorf("sftp server: sending replies: %w", err))
	}
	s.delivered(r)
	return true
}

func (s *session) readAt(r *request) (int, error) {
	h := r.handle
	switch {
	case h.readerAt == nil && h.file != nil && h.flags&wire.OpenRead != 0:
		return 0, errUnsupported
	case h.readerAt == nil:
		return 0, errBadHandle
	case r.length == 0: // as OpenSSH's server does; a DATA without data would be meaningless
		return 0, io.EOF
	case r.offset > math.MaxInt64-r.length:
		return 0, io.EOF
	}
	data := r.reply.Bytes()[wire.DataHeaderSize:][:r.length]
	n, err := readAt(h.readerAt, data, int64(r.offset))
	if err := moves(s.ctx, s.view.downloads, n); err != nil {
		return 0, err
	}
	h.moved.Add(int64(n), 0)
	if n == 0 && err == io.EOF {
		h.sawEnd.Store(true)
		if h.writerAt == nil { // otherwise the file may go on to grow
			h.turns.tell(func(sum *whole.Sum) { sum.End(r.offset) })
		}
	}
	return n, err
}

func (s *session) write(r *request) error {
	h := r.handle
	switch {
	case h.writerAt == nil && h.file != nil && h.flags&wire.OpenWrite != 0:
		return errUnsupported
	case h.writerAt == nil:
		return errBadHandle
	}
	if err := h.failed(); err != nil {
		return err
	}
	var err error
	if r.offset > math.MaxInt64-r.length {
		err = &StatusError{Code: wire.Failure, Message: "file too large"}
	} else if err = moves(s.ctx, s.view.uploads, len(r.data)); err == nil && len(r.data) > 0 {
		var n int
		n, err = h.writerAt.WriteAt(r.data, int64(r.offset))
		if n < len(r.data) && err == nil {
			err = io.ErrShortWrite
		}
		h.moved.Add(0, int64(max(n, 0)))
	}
	if err != nil {
		h.failWrites(err)
	}
	return err
}

func (w *worker) open(ctx context.Context, s *session, r *request) {
	w.giveHandle(s, r, func() (*handle, error) {
		file, err := s.view.open(ctx, r.path, r.flags, r.attrs)
		if err != nil {
			return nil, err
		}
		h := newFileHandle(file, r)
		if s.reports.Hashes {
			h.sums()
		}
		return h, nil
	})
}

// giveHandle answers OPEN and OPENDIR. If there are too many handles it does not call open, which
// might create or truncate a file.
func (w *worker) giveHandle(s *session, r *request, open func() (*handle, error)) {
	h, err := s.openReserved(open)
	if err != nil {
		w.status(s, r, err)
		return
	}
	s.mu.Lock()
	s.handles.add(h)
	s.mu.Unlock()
	if h.file != nil {
		s.reportOpened(h)
	}
	key := appendKey(make([]byte, 0, handleSize), h.key)
	w.short(s, r, wire.Handle{Handle: key}.Append(w.scratch[:0], r.id))
}

// openReserved opens a file or directory for which there is a handle. open may panic.
func (s *session) openReserved(open func() (*handle, error)) (h *handle, err error) {
	if err := s.reserveHandle(); err != nil {
		return nil, err
	}
	defer func() {
		if h == nil {
			s.unreserveHandle()
		}
	}()
	return open()
}

// reserveHandle counts a handle that is about to be opened, or returns an error if there are too
// many.
func (s *session) reserveHandle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open.take() {
		return errHandles
	}
	if !s.handles.reserve(s.maxOpen) {
		s.open.give()
		return errHandles
	}
	return nil
}

// unreserveHandle takes back reserveHandle.
func (s *session) unreserveHandle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles.unreserve()
	s.open.give()
}

func (s *session) reportOpened(h *handle) {
	s.reports.Report(Event{Kind: FileOpened, Path: h.path, Upload: h.flags&writing != 0,
		Transfer: &h.moved})
}

// close forgets a handle that no other request uses, and closes it as closeHandle does.
func (s *session) close(h *handle, unclosed error) error {
	s.mu.Lock()
	s.handles.remove(h)
	s.mu.Unlock()
	defer s.open.give() // only then is the file closed
	return s.closeHandle(h, unclosed)
}

// closeHandle closes a file or directory, or abandons a file, also if unclosed, the reason why
// there was no CLOSE, is not nil.
func (s *session) closeHandle(h *handle, unclosed error) error {
	if h.dir != nil {
		h.dir.stop()
		return nil
	}
	end, reason := nothing, h.incomplete(unclosed)
	e := h.closed()
	if reason == nil {
		e.SHA256 = s.sumOf(h, e.Upload)
	}
	if reason == nil && e.Upload {
		end, reason = s.reports.Begin(e)
	}
	e.Kind, e.Err = FileClosed, reason
	if reason != nil {
		h.abandon(reason)
		e.Kind, e.SHA256 = FileAbandoned, ""
	} else {
		if e.Err = permitted(end, h.file.Close); e.Err != nil {
			e.Kind, e.SHA256 = FileFailed, ""
		}
	}
	e.Took = time.Since(h.opened)
	s.reports.Report(e)
	return e.Err
}

// sumOf returns the hash of a file that is about to be closed, or "". For a file open for writing
// it covers the bytes written.
func (s *session) sumOf(h *handle, upload bool) string {
	if upload != (h.writerAt != nil) {
		return ""
	}
	t := &h.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum.Hex(func() int64 { return sizeOpen(h.file) })
}

func (s *session) fstat(h *handle) (fs.FileInfo, error) {
	return s.view.statOpen(s.ctx, h.file, h.path)
}

func (s *session) fsetstat(r *request) error {
	if r.attrs.Has(wire.AttrSize) && r.handle.dir == nil && r.handle.flags&wire.OpenWrite == 0 {
		return fs.ErrInvalid // as ftruncate(2) says
	}
	if setstater, ok := r.handle.file.(FileSetstater); ok {
		if r.attrs.Has(wire.AttrSize) {
			r.handle.resized.Store(true)
			r.handle.turns.tell(func(sum *whole.Sum) { sum.Resize(r.attrs.Size) })
		}
		return s.view.set(setstater.Setstat(r.attrs), opFsetstat, r.handle.path, r.attrs,
			func() (fs.FileInfo, error) { return s.fstat(r.handle) })
	}
	if r.handle.dir != nil {
		return s.view.Setstat(s.ctx, r.handle.path, r.attrs)
	}
	return errUnsupported
}

// extended runs an extended request.
func (w *worker) extended(ctx context.Context, s *session, r *request) {
	v := s.view
	switch r.op {
	case opPosixRename:
		w.status(s, r, v.PosixRename(ctx, r.path, r.path2))
	case opHardlink:
		w.status(s, r, v.Link(ctx, r.path, r.path2))
	case opLimits:
		w.short(s, r, s.limits.Append(w.scratch[:0], r.id))
	case opStatVFS:
		reply, err := v.StatVFS(ctx, r.path)
		w.statVFS(s, r, reply, err)
	case opFstatVFS:
		reply, err := s.fstatVFS(r.handle)
		w.statVFS(s, r, reply, err)
	case opFsync:
		w.status(s, r, s.fsync(r.handle))
	case opAbandon:
		err := s.close(r.handle, errGivenUp)
		if err == errGivenUp {
			err = nil
		}
		w.status(s, r, err)
	case opExpandPath:
		name, err := s.expandPath(r.text)
		w.name(s, r, name, err)
	case opHomeDirectory:
		name, err := v.HomeDir(ctx, r.text)
		w.name(s, r, name, err)
	case opUsersGroups:
		reply, err := s.usersGroups(r)
		w.reply(s, r, reply, err)
	case opCopyData:
		w.status(s, r, s.copyData(r))
	case opCheckFileHandle, opCheckFileName:
		reply, err := s.checkFile(r)
		w.reply(s, r, reply, err)
	case opChunks:
		reply, err := s.chunks(r)
		w.reply(s, r, reply, err)
	case opPutFiles:
		w.putFiles(ctx, s, r)
	case opGetFiles:
		w.getFiles(ctx, s, r)
	}
}

func (w *worker) statVFS(s *session, r *request, reply wire.StatVFSReply, err error) {
	if err != nil {
		w.status(s, r, err)
		return
	}
	w.short(s, r, reply.Append(w.scratch[:0], r.id))
}

func (s *session) fstatVFS(h *handle) (reply wire.StatVFSReply, err error) {
	if stater, ok := h.file.(FileStatVFSer); ok {
		if reply, err = stater.StatVFS(); !errors.Is(err, errors.ErrUnsupported) {
			return s.view.limitStatVFS(reply), err
		}
	}
	return s.view.statVFS(s.ctx, h.path)
}

func (s *session) fsync(h *handle) error {
	if err := h.failed(); err != nil {
		return err
	}
	syncer, ok := h.file.(FileSyncer)
	if !ok {
		return errUnsupported
	}
	err := syncer.Sync()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		h.failWrites(err) // what was written is not stored; a pipe, which has EINVAL, stores nothing
	}
	return err
}

// expandPath resolves a path that may begin with "~" or "~user" (OpenSSH PROTOCOL, section 4.9).
func (s *session) expandPath(name string) (string, error) {
	if strings.HasPrefix(name, "~") {
		user, rest, _ := strings.Cut(name[1:], "/")
		home, err := s.view.HomeDir(s.ctx, user)
		if err != nil {
			return "", err
		}
		name = home + "/" + rest
	}
	return s.view.realPath(s.ctx, s.view.Path(name))
}

// usersGroups returns the reply to users-groups-by-id (OpenSSH PROTOCOL, section 4.12).
func (s *session) usersGroups(r *request) (reply wire.UsersGroupsReply, err error) {
	users, groups, err := s.view.ownerNames(s.ctx, r.uids, r.gids)
	if err == nil && (len(users) != len(r.uids) || len(groups) != len(r.gids)) {
		err = &StatusError{Code: wire.Failure, Message: "the backend returned the wrong number of names"}
	}
	if err != nil {
		return reply, err
	}
	room := wire.MaxPacket - 1024 - 4*(len(users)+len(groups))
	for _, list := range [...][]string{users, groups} {
		for i, name := range list {
			if room -= len(name); room < 0 {
				list[i] = "" // no name is better than no reply
			}
		}
	}
	return wire.UsersGroupsReply{Users: users, Groups: groups}, nil
}

// copyData answers copy-data (draft-ietf-secsh-filexfer-extensions-00, section 7).
func (s *session) copyData(r *request) error {
	from, to := r.handle, r.target
	if from.readerAt == nil || to.writerAt == nil {
		return errBadHandle
	}
	if err := to.failed(); err != nil {
		return err
	}
	if r.offset > math.MaxInt64 || r.toOffset > math.MaxInt64 {
		return errOffset
	}
	length := r.length
	source, err := s.fstat(from)
	if length == 0 {
		length = math.MaxInt64
		// The end is where it is now: the copy may lengthen its own source, through another handle.
		// A file without a size, as in /proc, is read to its end.
		if err == nil && source.Size() > 0 {
			length = uint64(max(0, source.Size()-int64(r.offset)))
		}
	}
	length = min(length, math.MaxInt64-r.offset, math.MaxInt64-r.toOffset)
	// Like OpenSSH's server, refuse to copy within one file if the ranges overlap: it would read
	// its own output.
	same, at := from == to, r.toOffset
	if !same && err == nil {
		if target, err := s.fstat(to); err == nil {
			// Files known by their names differ: one may be what is to replace the other.
			same = identityOf(source, "source") == identityOf(target, "target")
			if to.flags&wire.OpenAppend != 0 {
				at = uint64(max(0, target.Size()))
			}
		}
	}
	if same && r.offset < at+length && at < r.offset+length {
		return &StatusError{Code: wire.Failure, Message: "the ranges overlap"}
	}
	from.turns.tell((*whole.Sum).Break) // its bytes are not hashed
	to.turns.tell((*whole.Sum).Break)
	n, err := s.copyRange(r, int64(length))
	from.moved.Add(int64(n), 0)
	to.moved.Add(0, int64(n))
	if err != nil {
		to.failWrites(err)
		return err
	}
	// As with OpenSSH's server, a source shorter than the requested length is an error.
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
		n, readErr := readAt(r.handle.readerAt, piece, int64(r.offset)+done)
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
