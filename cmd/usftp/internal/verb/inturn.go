package verb

import (
	"errors"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/private"
)

// mostAhead is how many operands a verb works on at once.
const mostAhead = 64

// A result is what a verb has found out about one operand.
type result interface {
	failure() error
	close() (wasOpen bool) // the file
}

// An opened is the result of opening an operand.
type opened struct {
	file *usftp.File // nil if it is not open any more
	err  error
}

func (o *opened) failure() error { return o.err }

func (o *opened) close() (wasOpen bool) {
	if o.file != nil {
		o.file.Close()
	}
	return o.file != nil
}

// inTurn runs a function for each operand, many at once, and passes the results on in the order of
// the operands; done closes them, if they hold files. It starts none once the verb is over. What a
// host refuses only because it allows few open files is tried again when no other operand has one
// open.
func inTurn[S any, T result](j *job, operands []S, run func(S) T, done func(S, T)) {
	room := &room{Room: flow.NewRoom(private.FilesAtOnce(j.client, mostAhead))}
	results := make([]chan T, len(operands))
	start := func(from int) {
		for i := from; i < min(from+room.Most, len(operands)) && !j.over(); i++ {
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
		if room.Most > 1 && mayBeCrowded(j, room, r.failure()) {
			r.close()
			open := 0
			for k := i + 1; k < len(operands) && results[k] != nil; k++ {
				if (<-results[k]).close() {
					open++
				}
				results[k] = nil
			}
			r = run(operands[i])
			room.refused(open, r.failure() == nil, oneHandle(j))
		} else if r.failure() == nil {
			room.Grow()
		}
		results[i] = nil
		done(operands[i], r)
	}
}

// A room says how many operands may be worked on at once. A refusal may mean that they are too
// many, or something else: then it is not to be tried again for each operand that is refused.
type room struct {
	flow.Room
	proved int // files that the host has had open at once
}

// refused notes that an operand was refused, how many files others had open, and whether that was
// why: crowded says that it was not refused again without them, single that the host allows one.
func (r *room) refused(open int, crowded, single bool) {
	if crowded || open > r.proved {
		r.proved = open
	}
	most := r.Most
	switch {
	case single:
		r.Limit = 1
	case crowded && open == 0: // the operands hold nothing open
		r.Limit = max(1, most/2)
	case crowded:
		r.Limit = open
	default:
		most = r.proved
	}
	r.Lower(most)
}

// mayBeCrowded reports whether a host may have refused a file because others are open. Version 3
// has no status for that. OpenSSH's servers allow a thousand.
func mayBeCrowded(j *job, room *room, err error) bool {
	if oneHandle(j) || errors.Is(err, usftp.ErrSharedHandle) {
		return true
	}
	return room.Most > max(1, room.proved) && !private.OfClient(j.client).WorksInOrder() &&
		endpoint.Refused(err) && !endpoint.IsAbsent(err)
}

// oneHandle reports whether the host allows only one open file at a time.
func oneHandle(j *job) bool { return private.OfClient(j.client).OneHandle() }
