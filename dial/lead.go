package dial

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A lead is the first login of a Dialer, while nobody knows yet what opens the door. Others may
// connect and exchange keys meanwhile, but wait for it before they offer anything: so nobody is
// asked twice, and nothing fails twice.
type lead struct {
	done  chan struct{} // closed when it is decided
	err   error         // why it failed; set before that
	flies bool          // it needs no person, and is decided a round trip from now
}

// errEachNeedsPerson is what a login meets that was begun before it was known that it cannot do by
// itself.
var errEachNeedsPerson = errors.New("each login needs a person")

// begin has a login lead, or follow the one that does.
func (d *Dialer) begin(l *login) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.replay = d.last
	switch {
	case d.last != nil:
	case d.lead != nil:
		l.behind = d.lead
	default:
		d.lead = &lead{done: make(chan struct{})}
		l.lead = d.lead
	}
}

// flies notes that the login that leads has sent all it has to say.
func (d *Dialer) flies(l *lead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.flies = true
}

// leadFlies reports whether the first login is soon decided, or is already.
func (d *Dialer) leadFlies() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lead == nil || d.lead.flies
}

// follow waits for the login that leads, and takes over where that has failed for a reason of its
// own.
func (l *login) follow() error {
	for l.behind != nil {
		select {
		case <-l.behind.done:
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		}
		err := l.behind.err
		l.behind = nil
		var refused *AuthError
		if errors.As(err, &refused) {
			return err
		}
		l.d.begin(l)
		if slices.ContainsFunc(l.replay, func(s step) bool { return s.person }) {
			return errEachNeedsPerson
		}
	}
	return nil
}

// decide ends a login: what worked is remembered, and those who wait for it go on.
func (d *Dialer) decide(l *login, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.last = l.worked()
	}
	if l.lead != nil {
		d.lead = nil
		l.lead.err = err
		close(l.lead.done)
	}
}

// hopeful tells that the first login is likely to succeed by itself: the host is who it should be,
// and there is a key that opens the door without a person. What others exchange meanwhile the first
// one has behind it, and where no key opens it nothing was offered in vain.
func (l *login) hopeful() {
	// behind a jump host nobody knows yet how long the way is
	if l.lead == nil || l.trip == 0 || l.s.preferred[0] != "publickey" {
		return
	}
	l.load()
	if len(l.credentials) > 0 && l.credentials[0].alone() {
		l.nearly()
	}
}

// alone reports whether a key signs without a person.
func (c *credential) alone() bool { return c.public != nil && !c.person && !c.locked }

// nearly tells, once for each Dialer, that the first login is as good as done.
func (l *login) nearly() {
	if l.d.config.Nearly == nil {
		return
	}
	l.d.mu.Lock()
	told := l.d.told
	l.d.told = true
	l.d.mu.Unlock()
	if !told {
		l.d.config.Nearly(l.d, l.trip)
	}
}

// took takes the time that so many round trips have needed into account. The shortest counts: some
// servers think for a while.
func (l *login) took(d time.Duration, trips int) {
	if d /= time.Duration(trips); l.trip == 0 || d < l.trip {
		l.trip = d
	}
}
