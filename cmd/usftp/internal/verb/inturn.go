package verb

import (
	"errors"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// mostAhead is how many operands a verb works on at once, and unknownAhead their number on servers
// that may allow few open files.
const mostAhead, unknownAhead = 64, 16

// A result is what a verb has found out about one operand.
type result interface {
	failure() error
	close() // the file, if one is open
}

// inTurn runs a function for each operand, many at once, and passes the results on in the order of
// the operands; done closes them, if they hold files. It starts none once the verb is over. What a host refuses only
// because it allows few open files is tried again when no other operand has one open.
func inTurn[S any, T result](j *job, operands []S, run func(S) T, done func(S, T)) {
	most := ahead(j)
	results := make([]chan T, len(operands))
	start := func(from int) {
		for i := from; i < min(from+most, len(operands)) && !j.over(); i++ {
			if results[i] == nil {
				results[i] = make(chan T, 1)
				go func() { results[i] <- run(operands[i]) }()
			}
		}
	}
	for i := range operands {
		if start(i); results[i] == nil {
			return
		}
		r := <-results[i]
		if most > 1 && mayBeCrowded(j, r.failure()) {
			r.close()
			for k := i + 1; k < len(operands) && results[k] != nil; k++ {
				(<-results[k]).close()
				results[k] = nil
			}
			if r = run(operands[i]); oneHandle(j) {
				most = 1
			} else if r.failure() == nil {
				most /= 2
			}
		}
		results[i] = nil
		done(operands[i], r)
	}
}

// ahead returns how many operands may be worked on at once. It does not ask the server for its
// limit, which would take a round trip.
func ahead(j *job) int {
	own := private.OfClient(j.client)
	_, limits := j.client.HasExtension(wire.ExtLimits)
	switch {
	case own.OneHandle() || own.ReadsOnce():
		return 1
	case limits || own.WorksInOrder():
		return mostAhead
	}
	return unknownAhead
}

// mayBeCrowded reports whether a host may have refused a file because others are open. Version 3
// has no status for that. OpenSSH's servers allow a thousand.
func mayBeCrowded(j *job, err error) bool {
	if oneHandle(j) || errors.Is(err, usftp.ErrSharedHandle) {
		return true
	}
	return !private.OfClient(j.client).WorksInOrder() && endpoint.Refused(err) &&
		!endpoint.IsAbsent(err)
}

// oneHandle reports whether the host allows only one open file at a time.
func oneHandle(j *job) bool { return private.OfClient(j.client).OneHandle() }
