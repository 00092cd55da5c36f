package conn

import (
	"context"
	"sync/atomic"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/wire"
)

// Completer learns that a call is complete. Complete runs on a goroutine of the connection: it must
// not block.
type Completer interface{ Complete(*Call) }

// Call is one request and its reply. It belongs to its owner before it is started and after it is
// complete, and to the connection in between, even if the caller stops waiting. [Conn.NewCall]
// lends calls and [Conn.Recycle] takes them back.
type Call struct {
	// Request is the packet, from its length field on. The connection fills in the id.
	Request []byte

	// Data, if not nil, is the contents of a WRITE: it is sent after Request, whose length field
	// includes it. It is the caller's memory, and has been written or copied when Start returns.
	Data []byte

	// Payload is the block that holds the Request of a WRITE. The connection releases it as soon as
	// it has been sent.
	Payload *buffer.Block

	// Expect is the type of a good reply. STATUS is always allowed.
	Expect wire.Type

	// Bytes count against the budget while the call is in flight: the length of a WRITE's data, or
	// the length that a READ requests, which is also the most that its reply may hold.
	Bytes int

	// Keep leaves Bytes taken when the call is complete: its owner gives them back with
	// [Conn.GiveBack] when it has used the reply or when Orphan is called. If Err is set it must
	// not: the connection has them, or the budget has ended with it.
	Keep bool

	// Tag identifies the call to its owner.
	Tag int

	// Ordered sends the request after the WRITEs that were started before it.
	Ordered bool

	// Handle is the open file or directory that the request is about, or nil. The connection fills
	// it in when an OPEN or OPENDIR has succeeded.
	Handle *Handle

	// Closes says that an extended request closes Handle, as a CLOSE does.
	Closes bool

	// Done is called when the call is complete.
	Done Completer

	// Sent, if not nil, is woken when a WRITE has been sent and its memory is free.
	Sent *Queue

	// Orphan, if not nil, is called if the waiter has gone, to undo the call's effect, such as an
	// open handle that nobody will close. It must not block. The reply is released after it.
	Orphan func(*Call)

	// Err is why there is no reply: the connection has ended, or the reply was too large to hold.
	Err error

	// Type is the type of the reply: Expect or STATUS.
	Type wire.Type

	// Status is the reply if that is a STATUS.
	Status wire.Status

	// Body is the data of a DATA reply, and the body of any other but STATUS. It lies in Reply or,
	// if that is nil, in the call itself.
	Body  []byte
	Reply *buffer.Block

	scratch [scratchSize]byte
	waiter  chan struct{} // of Do
	state   atomic.Uint32 // of Do, or abandoned
	next    *Call         // in the list that holds the call
	id      uint32
	depth   int64 // requests in the chain that ends here; see Stats.RoundTrips
	kind    wire.Type
	order   uint64 // when an OPEN was sent; see handles.stamp
	lost    bool   // its handle was given up; see handles.go
	sent    bool   // the stream has all of Request, which only an error may still quote
	writing bool   // some goroutine is writing Request, through its own slice
	replied bool   // the reply has arrived; the call completes as soon as it is sent
	overdue bool   // see Unanswered
}

// scratchSize holds most requests and short replies. Thousands of calls may be in flight, so longer
// ones take memory of their own.
const scratchSize = 128

// Scratch returns memory in the call, to append Request to. It holds any request without a long
// path, a long handle or data.
func (call *Call) Scratch() []byte { return call.scratch[:0] }

// hold copies a short body to the request's place, or into a block if that may still be read. The
// caller holds mu.
func (call *Call) hold(body []byte, pool *buffer.Pool) ([]byte, *buffer.Block) {
	if call.sent {
		return append(call.scratch[:0], body...), nil
	}
	block := pool.Get(len(body))
	return append(block.Bytes()[:0], body...), block
}

// Discard releases an unwanted reply.
func (call *Call) Discard() {
	call.Reply.Release()
	call.Reply, call.Body = nil, nil
}

// maxSpare is how many calls are kept for reuse: as many as one transfer has in flight.
const maxSpare = 64

// NewCall lends a call with nothing set.
func (c *Conn) NewCall() *Call {
	c.mu.Lock()
	call := c.recycle
	if call != nil {
		c.recycle, c.spare = call.next, c.spare-1
		call.next = nil
	}
	c.mu.Unlock()
	if call == nil {
		call = new(Call)
	}
	return call
}

// Recycle takes back a call that is complete and whose reply has been used up; it releases Reply.
// The connection itself releases the reply of an abandoned call.
func (c *Conn) Recycle(call *Call) {
	call.Discard()
	waiter := call.waiter
	*call = Call{waiter: waiter}
	c.mu.Lock()
	if c.spare < maxSpare {
		call.next, c.recycle, c.spare = c.recycle, call, c.spare+1
	}
	c.mu.Unlock()
}

// The states of a call that Do waits for.
const (
	waiting uint32 = iota
	completed
	abandoned
)

// rendezvous is the Completer of Do.
type rendezvous struct{}

func (rendezvous) Complete(call *Call) {
	if call.state.CompareAndSwap(waiting, completed) {
		call.waiter <- struct{}{}
		return
	}
	call.orphaned()
}

// orphaned ends a call whose caller no longer waits.
func (call *Call) orphaned() {
	if call.Orphan != nil && call.Err == nil {
		call.Orphan(call)
	}
	call.Discard()
}

// Do starts a call, by writing it at once if possible, and waits until it is complete or ctx is
// done. It returns nil if there is a reply, even an error status. After an error from ctx the call
// still belongs to the connection: it must be neither touched nor recycled.
func (c *Conn) Do(ctx context.Context, call *Call) error {
	if call.waiter == nil {
		call.waiter = make(chan struct{}, 1)
	}
	call.Done = rendezvous{}
	if err := c.start(ctx, call, true); err != nil {
		return err
	}
	select {
	case <-call.waiter:
		return call.Err
	case <-ctx.Done():
		if call.state.CompareAndSwap(waiting, abandoned) {
			return context.Cause(ctx)
		}
		<-call.waiter
		return call.Err
	}
}

// Abandon notes that nobody waits for a call any more that was not started by Do.
func (call *Call) Abandon() { call.state.Store(abandoned) }

// callList is a first-in, first-out list of calls.
type callList struct{ head, tail *Call }

func (l *callList) push(call *Call) {
	call.next = nil
	if l.tail == nil {
		l.head = call
	} else {
		l.tail.next = call
	}
	l.tail = call
}

func (l *callList) pop() *Call {
	call := l.head
	if call != nil {
		l.head = call.next
		if l.head == nil {
			l.tail = nil
		}
		call.next = nil
	}
	return call
}
