package dial

import (
	"context"
	"errors"
	"time"
)

// A firstLogin is the first login of a Dialer, until the server has accepted or refused it. Other
// logins may connect and exchange keys in the meantime, but wait for it before they offer anything.
// So nobody is asked twice, and nothing fails twice.
type firstLogin struct {
	done chan struct{} // closed when it has ended
	err  error         // why it failed; set before done is closed
}

// errEachNeedsPerson is the error of a login that began before it was known that each login needs a
// person.
var errEachNeedsPerson = errors.New("each login needs a person")

// begin makes a login the first one, or makes it follow the first one.
func (d *Dialer) begin(l *login) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.replay = d.last
	switch {
	case d.last != nil:
	case d.first != nil:
		l.waitsFor = d.first
	default:
		d.first = &firstLogin{done: make(chan struct{})}
		l.first = d.first
	}
}

// follow waits for the first login, and takes its place if that failed for a reason that does not
// concern this one.
func (l *login) follow() error {
	for l.waitsFor != nil {
		select {
		case <-l.waitsFor.done:
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		}
		err := l.waitsFor.err
		l.waitsFor = nil
		if _, refused := errors.AsType[*AuthError](err); refused {
			return err
		}
		l.d.begin(l)
		if needPerson(l.replay) {
			return errEachNeedsPerson
		}
	}
	return nil
}

// decide ends a login: it remembers the steps that worked, and lets the logins that wait continue.
func (d *Dialer) decide(l *login, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.last, d.refused = l.worked(), refusals{}
	} else if l.secretRefused() {
		d.refused = refusals{d.refused.times + 1, time.Now(), err}
	}
	if l.first != nil {
		d.first = nil
		l.first.err = err
		close(l.first.done)
	}
}
