package conn

import (
	"context"
	"sync"
)

// Queue is a Completer that collects the calls of one transfer for one goroutine to take. It must
// not be copied.
type Queue struct {
	mu        sync.Mutex
	list      callList
	wake      chan struct{} // holds one token when the list may have become non-empty
	abandoned bool
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{wake: make(chan struct{}, 1)} }

// Complete appends a call.
func (q *Queue) Complete(call *Call) {
	q.mu.Lock()
	if q.abandoned {
		q.mu.Unlock()
		call.orphaned()
		return
	}
	first := q.list.head == nil
	q.list.push(call)
	q.mu.Unlock()
	if first {
		q.Wake()
	}
}

// Wake makes a waiting Next, or else the next one, return with no call.
func (q *Queue) Wake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Take takes a complete call, or returns nil if there is none yet.
func (q *Queue) Take() *Call {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list.pop()
}

// Next waits for a complete call and takes it. It returns nil and no error after Wake.
func (q *Queue) Next(ctx context.Context) (*Call, error) {
	if call := q.Take(); call != nil {
		return call, nil
	}
	select {
	case <-q.wake:
		return q.Take(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Abandon releases the calls in the queue and all that follow. It is for a transfer that does not
// wait for its calls.
func (q *Queue) Abandon() {
	q.mu.Lock()
	q.abandoned = true
	list := q.list
	q.list = callList{}
	q.mu.Unlock()
	for call := list.pop(); call != nil; call = list.pop() {
		call.orphaned()
	}
}
