package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

// reader reads requests from the stream. One reader reads at a time. It runs a request itself if
// nothing else is running, because handing it to a worker costs more than most requests take. If
// the request takes long, or the client reads no replies, the session's watch starts another
// reader, and this one becomes a worker.
type reader struct {
	session *session
	in      *input
	worker  worker
}

var errInitTwice = errors.New("sftp server: the client sent INIT twice")

// begin answers INIT and then reads (draft-02, section 4).
func (d *reader) begin() {
	s := d.session
	packet, own, err := d.in.next()
	if err == nil && own != nil {
		err = fmt.Errorf("%w: an INIT of %d bytes", errPacketLength, len(packet))
	}
	s.releasePacket(own)
	if err == nil {
		err = s.greet(packet)
	}
	if err != nil {
		d.stop(err)
		return
	}
	s.flush()
	d.read()
}

// greet answers INIT. Like OpenSSH's server it ignores the client's version and announces its own.
func (s *session) greet(packet []byte) error {
	t, _, body, err := wire.ParseHeader(packet)
	if err != nil || t != wire.TypeInit {
		return fmt.Errorf("sftp server: the client began with %v instead of INIT", t)
	}
	var hello wire.Init
	if err := hello.Parse(body); err != nil {
		return fmt.Errorf("sftp server: INIT: %w", err)
	}
	s.log.Debug("session begins", slog.Uint64("client_version", uint64(hello.Version)))
	s.out.put(wire.InitReply{Version: wire.Version, Extensions: s.view.extensions()}.Append(nil))
	return nil
}

// stop ends reading. It is no error if the stream ended between two packets.
func (d *reader) stop(err error) {
	s := d.session
	d.in.drop()
	if !errors.Is(err, io.EOF) {
		s.end(err)
		return
	}
	s.mu.Lock()
	s.eof = true
	s.over.Broadcast()
	s.mu.Unlock()
}

// read reads until the stream ends or another reader has taken over.
func (d *reader) read() {
	s := d.session
	for {
		packet, own, err := d.in.next()
		if err != nil {
			s.releasePacket(own)
			d.stop(err)
			return
		}
		r, inline, err := d.admit(packet, own)
		if err != nil {
			d.stop(err)
			return
		}
		switch {
		case inline:
			d.worker.alone = true
			d.worker.execute(s, r)
		case r != nil && r.bad != nil:
			d.worker.refuse(s, r)
		}
		switch {
		case d.in.ready() && !s.out.long():
		case r != nil:
			s.answer()
		default:
			s.flush()
		}
		if !d.finishAdmit(r, inline) {
			return
		}
	}
}

// admit parses a packet and schedules its request; inline reports whether the reader should run it.
// A request with r.bad set must be refused; any other goes to a worker. The reader counts as busy
// until it calls finishAdmit.
func (d *reader) admit(packet []byte, own *buffer.Block) (r *request, inline bool, err error) {
	s := d.session
	t, id, body, err := wire.ParseHeader(packet)
	if err == nil && t == wire.TypeInit {
		err = errInitTwice
	}
	if err != nil {
		s.releasePacket(own)
		return nil, false, err
	}
	if err := s.awaitRoom(); err != nil {
		s.releasePacket(own)
		return nil, false, err
	}
	r = s.newRequest(id, own)
	r.bad = s.parse(r, t, body)

	s.mu.Lock()
	if r.bad == nil {
		r.bad = s.attach(r)
	} else {
		s.noteRefused(r)
	}
	// A long WRITE, or several small files, take so long that handing them over costs little, and
	// the next packet is read in the meantime.
	long := s.parallel && (own != nil && r.op == opWrite || r.op.onFiles())
	free := !long && s.schedule.running == 0 && s.schedule.waiting == 0 && s.handedOut == 0 &&
		s.memory+r.charge <= s.maxMem
	if !free && r.bad == nil && len(r.data) > 0 && r.own == nil {
		// It will run while this reader overwrites the memory that holds its data.
		s.mu.Unlock()
		if r.own = s.leasePacket(len(r.data)); r.own == nil {
			return nil, false, io.ErrClosedPipe
		}
		r.data = r.own.Bytes()[:copy(r.own.Bytes(), r.data)]
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.closed {
		r.own.Release()
		return nil, false, io.ErrClosedPipe
	}
	s.enterBusy(d)
	s.handedOut = max(s.handedOut-1, 0)
	s.pending++
	if r.bad != nil {
		s.schedule.running++ // the session does not end before its refusal is reported
		return r, false, nil
	}
	s.schedule.add(r)
	if free {
		s.startRequest(r)
		return r, true, nil
	}
	s.idle = false
	s.addWorker()
	return nil, false, nil
}

// finishAdmit ends what admit began, and reports whether this reader continues.
func (d *reader) finishAdmit(r *request, inline bool) bool {
	s := d.session
	s.mu.Lock()
	switch {
	case inline:
		s.schedule.done(r)
		s.finish(r)
	case r != nil:
		s.schedule.running--
		s.finish(r)
	}
	s.progress++
	if s.reading == d {
		s.busy = false
		s.addWorker()
		s.mu.Unlock()
		return true
	}
	d.in.drop()
	s.mu.Unlock()
	// Send the reply, which may have waited for replies that now come from the new reader.
	s.flush()
	s.mu.Lock()
	next := s.take()
	if next == nil {
		s.leaveWork()
	}
	s.mu.Unlock()
	if next != nil {
		s.work(&worker{}, next)
	}
	return false
}

// enterBusy marks the reader busy and starts the watch over it. The caller holds the lock.
func (s *session) enterBusy(d *reader) {
	s.reading = d
	s.busy = true
	if !s.watching {
		s.watching = true
		s.seen = s.progress
		s.timer.Reset(patience)
	}
}

// watch runs regularly while requests arrive. It replaces a reader that has made no progress since
// the last time, and sends the replies that this one has queued to go with the next.
func (s *session) watch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || !s.busy:
		s.watching = false
	case s.seen != s.progress:
		s.seen = s.progress
		s.timer.Reset(patience)
	default:
		s.watching = false
		s.busy = false
		s.handedOut = afterSlow
		s.workers += 2 // the old one, and the one that sends
		next := &reader{session: s, in: s.reading.in.successor()}
		s.reading = next
		go next.read()
		go s.sendQueued()
	}
}

// sendQueued sends the queued replies, as a worker: a client that does not take them must not hold
// up the new reader.
func (s *session) sendQueued() {
	s.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveWork()
	s.addWorker()
}

// newRequest returns an empty request.
func (s *session) newRequest(id uint32, own *buffer.Block) *request {
	s.mu.Lock()
	r := s.spare
	if r != nil {
		s.spare = r.next
		r.next = nil
		s.spares--
	} else {
		r = &request{}
	}
	s.mu.Unlock()
	r.id, r.own = id, own
	return r
}

// parse parses a packet, and checks the policy.
func (s *session) parse(r *request, t wire.Type, body []byte) error {
	body, err := r.identify(t, body)
	if err == nil && r.op == opBeneath {
		body, err = r.unwrap(s.view, body)
	}
	if err != nil {
		return err
	}
	// OpenSSH's server leaves unknown types unanswered, so that a client would wait forever.
	if r.op == opUnknown {
		return errUnsupported
	}
	if err := r.parse(s.view, s.draft, body); err != nil {
		return err
	}
	return s.view.permitTo(r.op, r.does())
}

// identify determines a request's operation, and returns the rest of its packet.
func (r *request) identify(t wire.Type, body []byte) ([]byte, error) {
	if r.op = operationByType[t]; t != wire.TypeExtended {
		return body, nil
	}
	in := wire.NewReader(body)
	name := in.Bytes()
	r.op = extensionOperation(name)
	r.shortName = r.op == opCheckFileHandle && len(name) == len(wire.ExtCheckFile)
	if in.Err() != nil {
		return nil, errBadMessage
	}
	return in.Rest(), nil
}

// attach looks up a request's handles; the caller holds the lock.
func (s *session) attach(r *request) error {
	s.seq++
	r.seq = s.seq
	switch r.op {
	case opClose, opRead, opWrite, opFstat, opFsetstat, opReaddir, opFstatVFS, opFsync,
		opCheckFileHandle, opChunks, opAbandon:
		r.handle = s.findHandle(r.key)
	case opCopyData:
		r.handle, r.target = s.findHandle(r.key), s.findHandle(r.targetKey)
		if r.target == nil {
			r.handle = nil
			return errBadHandle
		}
	default:
		return nil
	}
	if r.handle == nil {
		return errBadHandle
	}
	if err := r.permitOnHandles(); err != nil {
		r.path = r.handle.path // for the log
		if r.op == opWrite || r.op == opCopyData {
			cmp.Or(r.target, r.handle).failWrites(err) // a file that misses a write must not look complete
		}
		r.handle, r.target = nil, nil
		return err
	}
	r.handle.turns.last++
	r.turn = r.handle.turns.last
	if r.op.closes() {
		r.handle.closing = true
		r.changes = r.handle.writerAt != nil
	}
	return nil
}

// permitOnHandles checks the rules of a request's open files.
func (r *request) permitOnHandles() error {
	if r.op == opCopyData {
		if err := permitCopyFrom(r.handle.file); err != nil {
			return err
		}
		return permitOn(r.target.file, r.op, 0)
	}
	return permitOn(r.handle.file, r.op, r.does())
}

// noteRefused records a refused request on its handle: it goes no further. A file that misses a
// write must not look complete. The caller holds the lock.
func (s *session) noteRefused(r *request) {
	h := s.findHandle(r.key)
	if h == nil {
		return
	}
	r.path = h.path // for the log
	switch r.op {
	case opWrite:
		h.failWrites(r.bad)
	case opCopyData:
		if target := s.findHandle(r.targetKey); target != nil {
			target.failWrites(r.bad)
		}
	}
}

// findHandle finds a handle that the client has not closed; the caller holds the lock.
func (s *session) findHandle(key uint32) *handle {
	h := s.handles.find(key)
	if h == nil || h.closing {
		return nil
	}
	return h
}

// awaitRoom waits while the session has the maximum of pending requests, or of replies that the
// client has not read.
func (s *session) awaitRoom() error {
	s.mu.Lock()
	if s.full() {
		s.mu.Unlock()
		s.flush()
		s.mu.Lock()
	}
	for s.full() && !s.closed {
		s.room.Wait()
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return io.ErrClosedPipe
	}
	return nil
}

func (s *session) full() bool {
	return s.pending >= maxPending || s.schedule.paths.len() >= maxPendingPaths ||
		s.short.Load() >= maxShort
}
