package dial

import (
	"context"
	"errors"
	"slices"
)

// A lead is the first login of a Dialer, before it is known what opens the door. Others may connect
// and exchange keys meanwhile, but wait for it before they offer anything: so no person is asked
// twice, and nothing fails twice.
type lead struct {
	done chan struct{} // closed when it is decided
	err  error         // why it failed; set before that
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
