package conn

import (
	"cmp"
	"context"
	"time"

	"github.com/usftp/usftp/wire"
)

// A request id is the number of a slot and, in the high bits, a count of requests. So a reply finds
// its call without a search, and a duplicate or invented reply is noticed.
const (
	slotBits = 16
	maxSlots = 1 << slotBits
)

// keepSlots is how large a table an idle connection keeps.
const keepSlots = 256

// Start queues a call. It waits while the budget is full, or until ctx is done; if ctx is done
// already, nothing is sent. If it returns nil, the call's Completer is called exactly once. If it
// returns an error, the Completer is not called and the call belongs to its owner again, except for
// its Payload, which has been released.
func (c *Conn) Start(ctx context.Context, call *Call) error { return c.start(ctx, call, false) }

// start starts a call like Start, but may write it at once.
func (c *Conn) start(ctx context.Context, call *Call, mayWrite bool) error {
	if ctx.Err() != nil {
		return c.refuse(call, context.Cause(ctx))
	}
	if call.opens() {
		c.follow()
	}
	atOnce := c.lockFor(call, mayWrite)
	err := cmp.Or(c.err, c.unusable(call))
	switch {
	case err != nil:
		c.mu.Unlock()
		return c.refuse(call, err)
	case !c.budget.take(int64(call.Bytes), call.opens()):
		turn := c.budget.wait(int64(call.Bytes), call.opens())
		c.mu.Unlock()
		return c.await(ctx, call, turn)
	case atOnce:
		c.register(call)
		c.writeAtOnce(call)
	default:
		c.enqueue(call)
		c.mu.Unlock()
	}
	return nil
}

// await starts a call when it is its turn.
func (c *Conn) await(ctx context.Context, call *Call, turn *turn) error {
	if call.Data != nil {
		c.gather(call)
	}
	inUse := c.waitFor(ctx, turn)
	c.mu.Lock()
	defer c.mu.Unlock()
	unusable := c.unusable(call)
	switch {
	case c.err != nil:
		return c.refuse(call, c.err)
	case turn.done && ctx.Err() == nil && unusable == nil && !c.outdated(turn):
		c.enqueue(call)
		return nil
	}
	c.budget.leave(turn)
	switch {
	case unusable != nil:
		return c.refuse(call, unusable)
	case c.outdated(turn):
		return c.refuse(call, c.public(ErrSharedHandle))
	case !inUse:
		return c.refuse(call, c.public(ErrOneHandle))
	}
	return c.refuse(call, context.Cause(ctx))
}

// waitFor waits until it is a caller's turn, or the connection or ctx has ended. It returns false
// if the caller waits for a handle that nobody uses.
func (c *Conn) waitFor(ctx context.Context, turn *turn) (inUse bool) {
	var idle <-chan time.Time
	if turn.opens {
		ticker := time.NewTicker(c.handleTime())
		defer ticker.Stop()
		idle = ticker.C
	}
	for used := int64(-1); ; {
		select {
		case <-turn.granted:
		case <-c.life.Done():
		case <-ctx.Done():
		case <-idle:
			if used, inUse = c.handleInUse(used); !inUse {
				return false
			}
			continue
		}
		return true
	}
}

// refuse releases the call's payload and returns err.
func (c *Conn) refuse(call *Call, err error) error {
	call.Payload.Release()
	call.Payload, call.Request, call.Data = nil, nil, nil
	return err
}

// TryStart queues a call if the budget has room for it now. If forced it ignores the budget: a
// transfer with nothing in flight must not wait for others, which may be waiting for their users.
// It returns false, and leaves the call alone, if there is no room, and an error if the connection
// has ended or the call's handle is closed.
func (c *Conn) TryStart(call *Call, force bool) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := cmp.Or(c.err, c.unusable(call))
	switch {
	case err != nil:
		return false, err
	case !c.budget.take(int64(call.Bytes), call.opens()) &&
		!(force && !call.opens() && c.budget.overdraw(int64(call.Bytes))):
		return false, nil
	}
	c.enqueue(call)
	return true, nil
}

// Room returns how many bytes a transfer that already has mine in flight may have in flight in
// total: as much as is left for everybody else. So the first transfer takes half of the budget, a
// second at least a quarter, and some is always left for the next: a slow sink cannot take
// everything. (This is the dynamic threshold of Choudhury and Hahne, 1998, with a factor of 1.)
func (c *Conn) Room(mine int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := (c.budget.free + mine) / 2
	if c.budget.shared != nil {
		room = min(room, c.budget.shared.room(mine))
	}
	return room
}

// GiveBack returns bytes to the budget that a call with Keep has left with its owner.
func (c *Conn) GiveBack(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget.move(-bytes)
	c.budget.serve()
}

// Queued returns how many bytes of WRITEs wait for the writer.
func (c *Conn) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

// register gives a call, for which the budget has been taken, an id. The caller holds mu.
func (c *Conn) register(call *Call) {
	index := c.takeSlot()
	c.slots[index] = call
	c.uses++
	call.id = uint32(c.uses)<<slotBits | index
	call.kind = wire.Type(call.Request[wire.LengthSize])
	call.depth = c.stats.roundTrips.Load() + 1
	wire.SetID(call.Request, call.id)
	c.active++
	if call.Handle != nil {
		c.handles.used++
		call.Handle.closing = call.Handle.closing || call.closes()
	}
	c.stall.started(c, call)
}

// enqueue registers a call and queues it. The caller holds mu.
func (c *Conn) enqueue(call *Call) {
	c.register(call)
	if call.Payload != nil || (call.Ordered && c.bulk.head != nil) {
		c.bulk.push(call)
		c.queued += len(call.Request)
	} else {
		c.urgent.push(call)
	}
	if !c.busy {
		c.wake.Broadcast()
	}
}

func (c *Conn) takeSlot() uint32 {
	if n := len(c.free); n > 0 {
		index := c.free[n-1]
		c.free = c.free[:n-1]
		return index
	}
	c.slots = append(c.slots, nil)
	return uint32(len(c.slots) - 1)
}

// find returns the call for a reply's id. Its request must have been sent, or be on its way out.
// The caller holds mu.
func (c *Conn) find(id uint32) *Call {
	index := id & (maxSlots - 1)
	if int(index) >= len(c.slots) {
		return nil
	}
	if call := c.slots[index]; call != nil && call.id == id && call.owed() {
		return call
	}
	return nil
}

// retire frees the slot and the budget of a call that was sent and has its reply. The caller holds
// mu.
func (c *Conn) retire(call *Call) {
	index := call.id & (maxSlots - 1)
	c.slots[index] = nil
	c.free = append(c.free, index)
	c.active--
	c.handleRetired(call)
	if call.Keep && !call.lost {
		c.budget.give(0)
	} else {
		c.budget.give(int64(call.Bytes))
	}
	c.stall.finished(call)
	if c.active == 0 && len(c.slots) > keepSlots {
		// an idle connection drops the table of a burst of thousands
		c.slots, c.free = nil, nil
	}
}
