// Package outside asks an LDAP directory or, through package hooks, a program of the operator's
// whether to let a user in.
package outside

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/usftp/usftp/server/sshd"
)

// A Question is about one login.
type Question struct {
	User, Password string
	Remote         string // the client's address and port
}

// An Answer lets a user in.
type Answer struct {
	Groups   []string // distinguished names of the user's groups
	Template string   // the name of the settings to take, or ""
}

// A Source knows users. Ask's error is a [*Refusal], or the reason that there is no answer.
type Source interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// ErrAnswered is wrapped by errors of sources that are up but whose answer is useless. The cache is
// not asked then: it would let in any client that can provoke such an answer.
var ErrAnswered = errors.New("the answer decides nothing")

// A Refusal is the answer no.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// Limits are the limits of an [Asker]. Zero means the default.
type Limits struct {
	Timeout time.Duration // for one answer
	AtOnce  int           // questions; of one address a quarter
	Rate    int           // questions a second

	// Cache is how long the last answer lets a user in, with the same password, while the source does
	// not answer. 0 disables it.
	Cache time.Duration
}

// Defaults of Limits.
const (
	UsualTimeout = 5 * time.Second
	UsualAtOnce  = 8
	UsualRate    = 20
)

// An Asker asks a source, not too often, and falls back on a cache while it is down. It is safe for
// concurrent use.
type Asker struct {
	source Source
	limits Limits
	places chan struct{}
	each   *addresses
	rate   *rate.Limiter
	cache  *cache

	mu   sync.Mutex
	down time.Time // the last time that there was no answer
}

// NewAsker returns an asker.
func NewAsker(source Source, limits Limits) *Asker {
	if limits.Timeout == 0 {
		limits.Timeout = UsualTimeout
	}
	if limits.AtOnce == 0 {
		limits.AtOnce = UsualAtOnce
	}
	if limits.Rate == 0 {
		limits.Rate = UsualRate
	}
	return &Asker{source: source, limits: limits, places: make(chan struct{}, limits.AtOnce),
		each: newAddresses(max(limits.AtOnce/4, 1)),
		rate: rate.NewLimiter(rate.Limit(limits.Rate), limits.Rate), cache: newCache(limits.Cache)}
}

// rest is how long users whom the cache knows do not ask a source that was down.
const rest = 5 * time.Second

// Ask asks whether to let a user in. Its error is a [*Refusal], or wraps [sshd.ErrUndecided].
func (a *Asker) Ask(ctx context.Context, q Question) (Answer, error) {
	// Directories take a bind without a password for an anonymous one, which succeeds: RFC 4513,
	// section 5.1.2.
	if q.Password == "" {
		return Answer{}, &Refusal{"the password is empty"}
	}
	ctx, cancel := context.WithTimeout(ctx, a.limits.Timeout)
	defer cancel()
	end, err := a.each.begin(ctx, q.Remote)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %d others from the same address were being asked "+
			"about for %s", sshd.ErrUndecided, a.each.each, a.limits.Timeout)
	}
	defer end()
	busy := fmt.Errorf("%w: %d others were being asked about for %s", sshd.ErrUndecided,
		a.limits.AtOnce, a.limits.Timeout)
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return Answer{}, busy
	}
	deadline, _ := ctx.Deadline()
	if a.resting() {
		if answer, ok := a.cache.find(q); ok {
			return answer, nil
		}
	}
	switch err := a.rate.Wait(ctx); {
	case err != nil && time.Until(deadline) <= 0: // a place became free just then
		return Answer{}, busy
	case err != nil:
		return Answer{}, fmt.Errorf("%w: there were more than %d questions a second",
			sshd.ErrUndecided, a.limits.Rate)
	}
	// If so, the waiting took the time, and not the source.
	hurried := time.Until(deadline) < a.limits.Timeout/2
	answer, err := a.source.Ask(ctx, q)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", a.limits.Timeout, err)
	}
	if _, refused := errors.AsType[*Refusal](err); refused {
		a.cache.forget(q)
		return Answer{}, err
	}
	if err == nil {
		a.cache.keep(q, answer)
		return answer, nil
	}
	if hurried || errors.Is(err, ErrAnswered) {
		return Answer{}, fmt.Errorf("%w: %w", sshd.ErrUndecided, err)
	}
	a.mu.Lock()
	a.down = time.Now()
	a.mu.Unlock()
	if answer, ok := a.cache.find(q); ok {
		return answer, nil
	}
	return Answer{}, fmt.Errorf("%w: %w", sshd.ErrUndecided, err)
}

// resting reports whether the source was down a moment ago.
func (a *Asker) resting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.down) < rest
}
