package server

import (
	"bytes"
	"sync"

	"github.com/usftp/usftp/internal/buffer"
)

// turns keeps the replies to requests on one handle in the order of the requests. The draft lets
// them come in any order, and each says what it answers; but there are clients, PuTTY's pscp for
// one, that take the answer to a later READ for the end of everything. What waits here waits for an
// earlier request on the same handle only.
type turns struct {
	last uint64 // given to the request that arrived last, under the session's lock

	mu   sync.Mutex
	sent uint64               // of the request that was answered last
	held map[uint64]heldReply // by their turns
}

// heldReply is a reply whose turn has not come.
type heldReply struct {
	short []byte
	long  *buffer.Block
}

// deliver queues a reply when its turn has come, and those that waited for it: a short one, which
// is copied, or one in a buffer, which is taken over. Short ones count from now on as not taken by
// the client, long ones have been charged: what is held while a request takes long is bounded like
// what the client leaves unread.
func (s *session) deliver(r *request, short []byte, long *buffer.Block) {
	s.short.Add(int64(len(short)))
	if r.handle == nil {
		s.enqueue(short, long)
		return
	}
	t := &r.handle.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.turn != t.sent+1 {
		if t.held == nil {
			t.held = map[uint64]heldReply{}
		}
		t.held[r.turn] = heldReply{bytes.Clone(short), long}
		return
	}
	s.enqueue(short, long)
	s.nextTurn(t)
}

// delivered is deliver for a reply that has been sent already.
func (s *session) delivered(r *request) {
	t := &r.handle.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	s.nextTurn(t)
}

// nextTurn queues those whose turn it is now; the caller holds the lock of t.
func (s *session) nextTurn(t *turns) {
	for t.sent++; len(t.held) > 0; t.sent++ {
		reply, ok := t.held[t.sent+1]
		if !ok {
			return
		}
		delete(t.held, t.sent+1)
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

// drop gives up what is held, in the end.
func (t *turns) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, reply := range t.held {
		if reply.long != nil {
			reply.long.Release()
		}
	}
	t.held = nil
}
