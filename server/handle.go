package server

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/server/internal/whole"
	"github.com/usftp/usftp/wire"
)

// noKey is never a handle's key.
const noKey = 0

// handle is an open file or directory.
type handle struct {
	key      uint32
	path     string
	place    string // for the order of requests
	flags    uint32
	file     File
	readerAt io.ReaderAt
	writerAt io.WriterAt
	raw      syscall.RawConn // set if the file may be sent through a relay
	system   bool            // a system file: the system serializes its writes
	dir      *listing        // of a directory
	opened   time.Time

	// Under the session's lock.
	ops     requestList // unfinished requests, in order of arrival
	active  int         // position in the session's list of handles with ops, from 1
	waiting int         // number of ops that have not started
	closing bool        // CLOSE has arrived: nothing may follow it
	turns   turns

	moved   Transfer
	sawEnd  atomic.Bool // a READ was answered with the end of the file
	resized atomic.Bool // by FSETSTAT
	// the first failure; a file with a gap must not look complete
	writeError atomic.Pointer[error]
}

// newFileHandle returns a handle for a file that stays open.
func newFileHandle(file File, r *request) *handle {
	h := newBriefHandle(file, r)
	raw := systemFile(file)
	if h.system = raw != nil; h.flags&writing == 0 {
		h.raw = raw
	}
	return h
}

// newBriefHandle returns a handle for a file that is used once and closed. It does not query the
// file's type, which saves a system call per file.
func newBriefHandle(file File, r *request) *handle {
	h := &handle{file: file, path: r.path, place: r.place, flags: r.flags, opened: time.Now()}
	if h.flags&wire.OpenRead != 0 {
		h.readerAt, _ = file.(io.ReaderAt)
	}
	if h.flags&wire.OpenWrite != 0 {
		h.writerAt, _ = file.(io.WriterAt)
	}
	return h
}

// readAt reads from a backend's file. A backend whose count is impossible must not make us send
// memory that has other contents.
func readAt(from io.ReaderAt, p []byte, offset int64) (int, error) {
	n, err := from.ReadAt(p, offset)
	if n < 0 || n > len(p) {
		return 0, errCount
	}
	return n, err
}

// sums has the file hashed as it passes.
func (h *handle) sums() {
	h.raw = nil // bytes in a relay cannot be hashed
	h.turns.sum = whole.New()
	if h.flags&wire.OpenAppend != 0 { // offsets say nothing
		h.turns.sum.Break()
	}
}

// systemFile returns the regular file of the system behind file, if there is one.
func systemFile(file File) syscall.RawConn {
	system, ok := file.(FileInSystem)
	if !ok {
		return nil
	}
	f := system.SystemFile()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// failWrites records a failed write. Later writes on the handle fail the same way, and so does
// CLOSE. A handle that is not open for writing is left alone.
func (h *handle) failWrites(err error) {
	if h.flags&wire.OpenWrite != 0 {
		h.writeError.CompareAndSwap(nil, &err)
	}
}

func (h *handle) failed() error {
	if err := h.writeError.Load(); err != nil {
		return *err
	}
	return nil
}

// Why a file was abandoned by its client.
var (
	errNoClose = errors.New("the session ended before CLOSE")
	errGivenUp = errors.New("the client gave it up")
)

// incomplete returns the reason to abandon the file, or nil: a failed write, or the reason why
// there was no CLOSE. A file that was only read, to its end, is complete all the same: some clients
// hang up then.
func (h *handle) incomplete(unclosed error) error {
	reason := h.failed()
	if reason == nil && (h.flags&wire.OpenWrite != 0 || !h.sawEnd.Load()) {
		reason = unclosed
	}
	return reason
}

// abandon gives the file up for a reason.
func (h *handle) abandon(reason error) {
	if h.flags&wire.OpenWrite != 0 {
		end(h.file, abandoned(reason))
	} else {
		h.file.Close()
	}
}

// OpenFiles limits the files and directories that sessions have open at once, over all sessions
// that share it. It is safe for concurrent use. A nil OpenFiles does not limit them.
type OpenFiles struct{ most, open atomic.Int64 }

// NewOpenFiles returns a limit of most files and directories.
func NewOpenFiles(most int) *OpenFiles {
	o := &OpenFiles{}
	o.SetMost(most)
	return o
}

// SetMost changes the limit. What is open beyond it stays open.
func (o *OpenFiles) SetMost(most int) { o.most.Store(int64(most)) }

// Most returns the limit.
func (o *OpenFiles) Most() int {
	if o == nil {
		return math.MaxInt
	}
	return int(o.most.Load())
}

// take takes a place for one, if there is any left.
func (o *OpenFiles) take() bool {
	if o == nil {
		return true
	}
	if o.open.Add(1) > o.most.Load() {
		o.open.Add(-1)
		return false
	}
	return true
}

// give returns a place.
func (o *OpenFiles) give() {
	if o != nil {
		o.open.Add(-1)
	}
}

// handleTable maps keys to handles. A key's lower half is a slot, its upper half counts the slot's
// uses, so that a handle is invalid after CLOSE.
type handleTable struct {
	slots []handleSlot
	free  []uint16
	open  int // handles and reservations
}

type handleSlot struct {
	h   *handle
	use uint16
}

// reserve reserves a handle for a file about to be opened. It returns false if limit handles exist
// already.
func (t *handleTable) reserve(limit int) bool {
	if t.open >= limit {
		return false
	}
	t.open++
	return true
}

// unreserve gives up a reservation.
func (t *handleTable) unreserve() { t.open-- }

// add uses a reservation for h, and gives it a key.
func (t *handleTable) add(h *handle) {
	var slot uint16
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		slot = uint16(len(t.slots))
		t.slots = append(t.slots, handleSlot{})
	}
	s := &t.slots[slot]
	if s.use++; s.use == 0 { // a use of 0 would make slot 0's key noKey
		s.use = 1
	}
	s.h = h
	h.key = uint32(s.use)<<16 | uint32(slot)
}

// find returns the handle with a key, or nil.
func (t *handleTable) find(key uint32) *handle {
	slot := int(key & 0xffff)
	if slot >= len(t.slots) || t.slots[slot].h == nil || t.slots[slot].h.key != key {
		return nil
	}
	return t.slots[slot].h
}

func (t *handleTable) remove(h *handle) {
	slot := uint16(h.key)
	t.slots[slot].h = nil
	t.free = append(t.free, slot)
	t.open--
}

// handleSize is the length of a handle as sent to clients. Handles are hexadecimal because some
// clients treat them as text.
const handleSize = 8

func appendKey(b []byte, key uint32) []byte {
	return hex.AppendEncode(b, binary.BigEndian.AppendUint32(make([]byte, 0, 4), key))
}

// parseKey is the inverse of appendKey. It returns noKey for anything that is not a handle.
func parseKey(b []byte) uint32 {
	var key [4]byte
	if len(b) != handleSize {
		return noKey
	}
	if _, err := hex.Decode(key[:], b); err != nil {
		return noKey
	}
	return binary.BigEndian.Uint32(key[:])
}

// turns sends the replies to requests on one handle in the order of the requests. The draft allows
// any order, but some clients, PuTTY's pscp among them, take the reply to a later READ for the end
// of the file. A reply waits only for earlier requests on the same handle.
type turns struct {
	last uint64 // of the latest request to arrive, under the session's lock

	mu   sync.Mutex
	sent uint64               // of the latest request to be answered
	held map[uint64]heldReply // by their turns
	sum  *whole.Sum           // over the answered requests; nil unless wanted
}

// heldReply is a reply whose turn has not come.
type heldReply struct {
	short []byte
	long  *buffer.Block
	piece piece
}

// piece is a part of a file that a request has written or read, for the file's hash.
type piece struct {
	data   []byte
	offset uint64
	own    *buffer.Block // that data lies in, if it is not the reply
}

// piece returns the data of a request that is to be hashed. Written data is taken from the request:
// it stays until its turn, and counts against the session's budget.
func (r *request) piece(long *buffer.Block) (p piece) {
	h := r.handle
	switch {
	case h.turns.sum == nil:
	case r.op == opWrite && r.wrote:
		p = piece{r.data, r.offset, r.own}
		r.own = nil
	case r.op == opRead && long != nil && h.writerAt == nil:
		p = piece{long.Bytes()[wire.DataHeaderSize:long.End], r.offset, nil}
	}
	return p
}

// pass hashes a piece whose turn has come. The caller holds the lock of t.
func (s *session) pass(t *turns, p piece) {
	if len(p.data) > 0 {
		t.sum.Pass(p.data, p.offset)
	}
	s.releasePacket(p.own)
}

// tell tells the sum, if any, about other events of the file.
func (t *turns) tell(what func(sum *whole.Sum)) {
	if t.sum == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	what(t.sum)
}

// deliver queues a reply if its turn has come, and the replies that waited for it. A short reply is
// copied; a long one comes in a buffer, which deliver takes over. Both count against the session's
// budget while they wait, like replies that the client has not read.
func (s *session) deliver(r *request, short []byte, long *buffer.Block) {
	s.short.Add(int64(len(short)))
	if r.handle == nil {
		s.enqueue(short, long)
		return
	}
	t, p := &r.handle.turns, r.piece(long)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.turn != t.sent+1 {
		if t.held == nil {
			t.held = map[uint64]heldReply{}
		}
		t.held[r.turn] = heldReply{bytes.Clone(short), long, p}
		if r.op == opWrite && p.own == nil { // its data is not kept, or was not written
			t.sum.Break()
		}
		return
	}
	s.pass(t, p)
	s.enqueue(short, long)
	s.nextTurn(t)
}

// delivered finishes a request whose reply has already been sent.
func (s *session) delivered(r *request) {
	t := &r.handle.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	s.nextTurn(t)
}

// nextTurn queues the replies whose turn has come. The caller holds the lock of t.
func (s *session) nextTurn(t *turns) {
	for t.sent++; len(t.held) > 0; t.sent++ {
		reply, ok := t.held[t.sent+1]
		if !ok {
			return
		}
		delete(t.held, t.sent+1)
		s.pass(t, reply.piece)
		s.enqueue(reply.short, reply.long)
	}
}

func (s *session) enqueue(short []byte, long *buffer.Block) {
	if long != nil {
		s.out.send(long)
		return
	}
	s.out.put(short)
}

// drop releases held replies at the end of the session.
func (t *turns) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, reply := range t.held {
		reply.long.Release()
		reply.piece.own.Release()
	}
	t.held = nil
}
