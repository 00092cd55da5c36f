package verb

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"hash"
	"hash/maphash"
	"io"
	"net"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
)

// errChanged ends a verb whose output would differ when it is run again.
var errChanged = errors.New(
	"the connection was lost, and the host no longer has what was printed before")

// Steadily runs a verb that may be run again: one that changes nothing, or whose changes do no harm
// if they are made twice. If the connection is lost, Renew replaces it and the verb runs once more
// from its beginning, with Again set. Messages and changes are reported once. A verb that changes
// nothing must produce the same output again, which is not printed twice; otherwise it fails.
func (e *Env) Steadily(changes bool, run func() error) error {
	if e.Renew == nil {
		return run()
	}
	out, say := e.Out, e.Say
	defer func() { e.Out, e.Say, e.Again, e.earlier = out, say, false, nil }()
	printed := &replay{out: out, sum: sha256.New(), env: e}
	if changes {
		e.earlier = newEarlier()
	} else {
		e.Out = printed
	}
	said := make(map[string]bool)
	e.Say = func(line string) {
		if !e.Again || !said[line] {
			say(line)
		}
		if len(said) < mostSaid {
			said[line] = true
		}
	}
	for {
		err := run()
		if err == nil || !errors.Is(err, net.ErrClosed) {
			if printed.missing() && (err == nil || errors.As(err, new(*ui.ExitError))) {
				return errChanged
			}
			return err
		}
		client := e.Renew(err, printed.progressed() || e.earlier.progressed())
		if client == nil {
			printed.release()
			return err
		}
		e.Client, e.Again = client, true
		printed.begin()
		e.earlier.begin()
	}
}

// mostSaid limits the messages kept so that they are not repeated.
const mostSaid = 10_000

// earlier is the memory that a run of a verb that changes files has of the runs before it. A nil
// earlier remembers nothing.
type earlier struct {
	seed  maphash.Seed
	run   int
	seen  map[uint64]int  // reports, by their hash, and the run that first made them
	met   map[string]bool // operands that existed, or for mkdir those that did not
	count int             // reports of this run
	most  int             // the most reports of any earlier run
	news  bool            // this run has got further than the earlier ones
}

// mostSeen limits the reports kept so that they are not repeated, at about 20 bytes each.
const mostSeen = 1 << 18

func newEarlier() *earlier {
	return &earlier{seed: maphash.MakeSeed(), seen: make(map[uint64]int),
		met: make(map[string]bool)}
}

// begin begins another run.
func (r *earlier) begin() {
	if r != nil {
		r.run++
		r.most, r.count, r.news = max(r.most, r.count), 0, false
	}
}

// progressed reports whether this run has done more than the earlier ones.
func (r *earlier) progressed() bool { return r != nil && r.news }

// has records a report about a file, and reports whether an earlier run has made it.
func (r *earlier) has(kind, name string) bool {
	if r == nil {
		return false
	}
	r.count++
	key := maphash.String(r.seed, kind+"\x00"+name)
	run, seen := r.seen[key]
	switch {
	case seen:
		return run < r.run
	case len(r.seen) < mostSeen:
		r.seen[key] = r.run
		r.news = true
	default:
		r.news = r.news || r.count > r.most
	}
	return false
}

// meet records that an operand exists.
func (r *earlier) meet(name string) {
	if r != nil {
		r.met[name] = true
	}
}

// hasMet reports whether an operand existed in an earlier run.
func (r *earlier) hasMet(name string) bool { return r != nil && r.met[name] }

// replay is output that leaves out the part printed before. Once the connection is lost it accepts
// no more output, which may lack data that the verb could no longer request, such as the names of
// owners.
type replay struct {
	out  io.Writer
	env  *Env
	held []byte // output that was not accepted

	printed int64 // by all runs
	sum     hash.Hash
	at      int64     // of this run
	now     hash.Hash // of this run, up to printed
	from    int64     // printed, when the last run began
}

// begin begins another run.
func (r *replay) begin() { r.held, r.at, r.from, r.now = nil, 0, r.printed, sha256.New() }

// release prints the output that was not accepted, as there will be no other run.
func (r *replay) release() {
	if r.at == r.printed {
		r.out.Write(r.held)
	}
}

// missing reports whether this run has printed less than the earlier ones.
func (r *replay) missing() bool { return r.at < r.printed }

// progressed reports whether this run has printed more than the earlier ones.
func (r *replay) progressed() bool { return r.printed > r.from }

func (r *replay) Write(p []byte) (n int, err error) {
	if pool.Lost(r.env.Client) {
		if r.held == nil {
			r.held = bytes.Clone(p)
		}
		return 0, cmp.Or(r.env.Client.Wait(), usftp.ErrClosed)
	}
	if r.at < r.printed {
		n = int(min(r.printed-r.at, int64(len(p))))
		r.now.Write(p[:n])
		if r.at += int64(n); r.at == r.printed && !bytes.Equal(r.now.Sum(nil), r.sum.Sum(nil)) {
			return n, errChanged
		}
	}
	if n < len(p) {
		var more int
		more, err = r.out.Write(p[n:])
		r.sum.Write(p[n : n+more])
		r.printed += int64(more)
		r.at += int64(more)
		n += more
	}
	return n, err
}
