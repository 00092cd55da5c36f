package objectfs

import (
	"io"
	"slices"
	"sync"
	"time"
)

// answer is the storage's answer to one request. It brings stretches one after the other, each when
// the client has come near enough; until then the storage has to wait.
type answer struct {
	end  int64         // of its range
	at   int64         // offset of the next byte of body
	body io.ReadCloser // or nil
	came int64         // bytes read from body
	cuts int           // bodies in a row that ended early and brought little

	// Under the source's lock.
	stretches []*stretch // still to be fetched
	ended     bool       // no further stretch is wanted
	idle      bool       // no stretch was wanted for a while
	wanted    sync.Cond  // any of these has changed
}

const (
	// longestIdle is how long the storage waits for the client. Many storages limit the number of
	// answers that they send at a time.
	longestIdle = 5 * time.Second

	// mostCuts is how many bodies in a row may end early with less than littleCame bytes.
	mostCuts, littleCame = 5, 64 << 10
)

func newAnswer(source *source, end int64) *answer {
	a := &answer{end: end}
	a.wanted.L = &source.mu
	return a
}

// load fetches the stretches of an answer as they are wanted. If one fails, so do the later ones.
func (q *stream) load(a *answer) {
	q.source.mu.Lock()
	defer q.source.mu.Unlock()
	defer a.drop()
	var err error
	for at := int64(0); at < a.end; {
		a.awaitWanted()
		if len(a.stretches) == 0 {
			return
		}
		s := a.stretches[0]
		a.stretches = a.stretches[1:]
		at = s.start + s.length
		s.err = err
		q.fill(a, s)
		if err = s.err; err != nil && slices.Contains(q.stretches, s) {
			q.forget() // the next READ tries again
		}
		s.came.Broadcast()
		q.source.leave(s)
	}
}

// awaitWanted waits until another stretch is wanted, or none will be. The caller holds the lock.
func (a *answer) awaitWanted() {
	if len(a.stretches) > 0 || a.ended {
		return
	}
	a.idle = false
	defer time.AfterFunc(longestIdle, func() {
		a.wanted.L.Lock()
		defer a.wanted.L.Unlock()
		a.idle = true
		a.wanted.Broadcast()
	}).Stop()
	for len(a.stretches) == 0 && !a.ended {
		if a.idle {
			a.drop() // more asks for the rest
		}
		a.wanted.Wait()
	}
}

// fill fetches a stretch while it has users. The caller holds the lock, which is released
// meanwhile.
func (q *stream) fill(a *answer, s *stretch) {
	for s.got < s.length && s.err == nil && s.users > 0 {
		q.source.mu.Unlock()
		n, err := a.more(q.source, s)
		q.source.mu.Lock()
		s.got += n
		s.err = err
		s.came.Broadcast()
	}
}

// more reads the next bytes of a stretch. If the connection ends early, as some storage lets it
// when a client is slow, it continues on a new one, unless this one brought nothing, or several in
// a row brought little.
func (a *answer) more(from *source, s *stretch) (int64, error) {
	at := s.start + s.got // nobody else changes it
	if a.at != at {
		a.drop()
	}
	if a.body == nil {
		body, err := from.fs.get(from.ctx, &from.object, at, a.end-at)
		if err != nil {
			return 0, err
		}
		a.body, a.at, a.came = body, at, 0
	}
	n, err := io.ReadFull(a.body, s.room())
	a.at += int64(n)
	a.came += int64(n)
	if err == nil {
		return int64(n), nil
	}
	a.drop()
	if a.cuts++; a.came >= littleCame {
		a.cuts = 0
	}
	if a.came > 0 && a.cuts < mostCuts {
		return int64(n), nil
	}
	return int64(n), err
}

// drop closes the body.
func (a *answer) drop() {
	if a.body != nil {
		a.body.Close()
		a.body = nil
	}
}
