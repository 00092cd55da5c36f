package verb

import "github.com/usftp/usftp/internal/private"

// mostInFlight is how many changes a verb has in flight. Over a link of 100 ms they make 40,000 a
// second, more than any server executes.
const mostInFlight = 4096

// A pipeline has operations in flight and takes their results in the order in which they were
// started, on its owner's goroutine.
type pipeline struct {
	waits []func()
	first int // index of the oldest in flight
}

// add adds wait, which waits for the result of an operation just started. If too many are in flight
// it first waits for the oldest.
func (p *pipeline) add(wait func()) {
	if len(p.waits)-p.first == mostInFlight {
		p.take()
	}
	if p.first > mostInFlight {
		p.waits = append(p.waits[:0], p.waits[p.first:]...)
		p.first = 0
	}
	p.waits = append(p.waits, wait)
}

// take waits for the oldest operation.
func (p *pipeline) take() {
	wait := p.waits[p.first]
	p.waits[p.first] = nil
	p.first++
	wait()
}

// drain waits for all operations, including those added in the meantime.
func (p *pipeline) drain() {
	for p.first < len(p.waits) {
		p.take()
	}
	p.waits, p.first = p.waits[:0], 0
}

// early reports whether the host may have come to an operand, by its number, before it was done
// with those in front of it.
func early(j *job, i int) bool { return i > 0 && !private.OfClient(j.client).WorksInOrder() }
