package verb

import (
	"errors"
	"io/fs"

	"github.com/usftp/usftp/internal/endpoint"
)

// mostBeside is how many operands inTurn works on at once.
const mostBeside = 64

// An outcome is what inTurn gets for an operand.
type outcome interface {
	refused() bool // by the host, which may allow it when fewer files are open
	close()        // closes what it has opened
}

// inTurn runs a function for each operand, at most this many at once, and passes the outcomes on in
// the order of the operands. What is refused is tried again alone. It starts none once the verb is
// over.
func inTurn[T outcome](j *job, names []string, most int, run func(name string) T,
	done func(name string, result T)) {
	results, started := make([]chan T, len(names)), 0
	for i, name := range names {
		for ; started < min(i+most, len(names)) && !j.over(); started++ {
			result, name := make(chan T, 1), names[started]
			results[started] = result
			go func() { result <- run(name) }()
		}
		if started == i {
			return
		}
		result := <-results[i]
		results[i] = nil
		if most > 1 && result.refused() {
			result.close()
			for _, later := range results[i+1 : started] {
				(<-later).close()
			}
			started = i + 1
			if result = run(name); !result.refused() {
				most = max(1, most/2)
			}
		}
		done(name, result)
	}
}

// isRefused reports whether a host that allows few open files may answer so.
func isRefused(err error) bool { return endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist) }

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
