package server

import (
	"bytes"
	"sync"
)

// turns keeps the replies to requests on one handle in the order of the requests. The draft lets them come in any order, and
// each says what it answers; but there are clients, PuTTY's pscp for one, that take the answer to a later READ for the end
// of everything. What waits here waits for an earlier request on the same handle only.
type turns struct {
	last uint64 // given to the request that arrived last, under the session's lock

	mu   sync.Mutex
	sent uint64 // of the request that was answered last
	held []heldReply
}

// heldReply is a reply whose turn has not come.
type heldReply struct {
	turn  uint64
	short []byte
	long  *buffer
}

// deliver queues a reply when its turn has come, and those that waited for it: a short one, which is copied, or one in a
// buffer, which is taken over.
func (s *session) deliver(r *request, short []byte, long *buffer) {
	if r.handle == nil {
		s.enqueue(short, long)
		return
	}
	t := &r.handle.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.turn != t.sent+1 {
		t.held = append(t.held, heldReply{r.turn, bytes.Clone(short), long})
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
	t.sent++
	for i := 0; i < len(t.held); i++ {
		if t.held[i].turn != t.sent+1 {
			continue
		}
		s.enqueue(t.held[i].short, t.held[i].long)
		t.sent++
		last := len(t.held) - 1
		t.held[i], t.held[last] = t.held[last], heldReply{}
		t.held = t.held[:last]
		i = -1
	}
}

func (s *session) enqueue(short []byte, long *buffer) {
	if long != nil {
		s.out.send(long)
		return
	}
	s.short.Add(int64(len(short)))
	s.out.put(short)
}

// drop gives up what is held, in the end.
func (t *turns) drop(pool *Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, reply := range t.held {
		if reply.long != nil {
			pool.release(reply.long)
		}
	}
	t.held = nil
}
