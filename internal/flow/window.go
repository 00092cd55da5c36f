package flow

import "time"

// Window says how many bytes one stream should have in flight. The link holds the rate at which
// data arrives times the round trip of an undisturbed request. Twice that is in flight: half is
// under way, and half waits at the server, so that it always has something to do. The window starts
// with a given value, since nothing is known yet, and at most doubles in a round trip. On a short
// link it stays small, which saves memory and lets interruptions and other requests through
// quickly.
//
// On a long link it is no more than [SSHWindow] if that carries all the bytes that the link holds
// and a tenth more. The rest would wait in a router's queue, and routers drop packets that overflow
// their queues: all later data then waits for the resent packets, and the link is idle meanwhile.
//
// The estimate is BBR's (Cardwell et al., 2016): the highest rate and the shortest round trip of
// the recent past.
//
// Times are durations since an arbitrary fixed moment.
type Window struct {
	least, most int64
	limit       int64
	inFlight    int64
	delivered   int64
	rate        recent // bytes a second; the highest
	trip        recent // nanoseconds; the shortest
}

// longTrip is the shortest round trip over which resending lost data is worth avoiding.
const longTrip = 4 * time.Millisecond

// NewWindow starts with the given bytes in flight and stays between least and most.
func NewWindow(start, least, most int64) *Window {
	w := new(Window)
	w.Reset(start, least, most)
	return w
}

// Reset starts over and reuses the memory.
func (w *Window) Reset(start, least, most int64) {
	most = max(most, 1)
	*w = Window{least: min(least, most), most: most, limit: min(max(start, least), most)}
}

// Stamp records the start of a request.
type Stamp struct {
	at        time.Duration
	delivered int64
}

// Sent records a request for n bytes.
func (w *Window) Sent(now time.Duration, n int) Stamp {
	w.inFlight += int64(n)
	return Stamp{at: now, delivered: w.delivered}
}

// Acked records the reply to a request for n bytes, of which got have moved.
func (w *Window) Acked(now time.Duration, s Stamp, n, got int) {
	w.inFlight -= int64(n)
	w.delivered += int64(got)
	took := now - s.at
	if got == 0 || took <= 0 {
		return // an end of file says little of the link
	}
	const memory = 10 * time.Second
	w.trip.add(now, memory, -int64(took))
	trip := time.Duration(-w.trip.best())
	w.rate.add(now, max(8*trip, 50*time.Millisecond),
		int64(float64(w.delivered-s.delivered)/took.Seconds()))
	holds := float64(w.rate.best()) * trip.Seconds()
	limit := int64(2 * holds)
	if trip >= longTrip && 1.1*holds <= SSHWindow {
		limit = min(limit, SSHWindow)
	}
	w.limit = min(max(limit, w.least), w.most)
}

// Lost takes a request for n bytes out of flight without learning from it.
func (w *Window) Lost(n int) { w.inFlight -= int64(n) }

// Has reports whether a request for n more bytes may be sent, if the budget leaves this stream room
// bytes. One request may always be in flight.
func (w *Window) Has(n int, room int64) bool {
	return w.inFlight == 0 || w.inFlight+int64(n) <= min(w.limit, room)
}

// InFlight returns the bytes in flight.
func (w *Window) InFlight() int64 { return w.inFlight }

// Limit returns how many bytes should be in flight.
func (w *Window) Limit() int64 { return w.limit }

// recent is the largest value added in this period and the previous one.
type recent struct {
	since      time.Duration
	this, last int64
	any, prior bool
}

func (r *recent) add(now, period time.Duration, v int64) {
	if r.any && now-r.since > period {
		r.last, r.prior, r.any = r.this, now-r.since <= 2*period, false
	}
	if !r.any {
		r.since, r.this, r.any = now, v, true
		return
	}
	r.this = max(r.this, v)
}

func (r *recent) best() int64 {
	if r.prior {
		return max(r.this, r.last)
	}
	return r.this
}
