package sshd

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Admission says when and from where a user may log in. The zero Admission allows everything.
type Admission struct {
	// Disabled refuses all logins.
	Disabled bool

	// Expires, if not zero, is when logins begin to be refused.
	Expires time.Time

	// From, if not empty, are the only networks from which logins are accepted. IPv4 addresses
	// are never of a network of IPv6.
	From []netip.Prefix
}

// ErrNotAdmitted is matched by the errors of logins that [Admission] refuses, and of those by users
// whose files cannot be served.
var ErrNotAdmitted = errors.New("the user may not log in")

// notAdmitted is why a user is kept out.
type notAdmitted struct{ error }

func (n notAdmitted) Is(target error) bool { return target == ErrNotAdmitted }
func (n notAdmitted) Unwrap() error        { return n.error }

var (
	errDisabled = notAdmitted{errors.New("the user is disabled")}
	errNetwork  = notAdmitted{errors.New("the user may not log in from this address")}
)

// check returns an error if a user is kept out.
func (a *Admission) check(address netip.Addr, now time.Time) error {
	switch {
	case a.Disabled:
		return errDisabled
	case !a.Expires.IsZero() && !now.Before(a.Expires):
		return notAdmitted{fmt.Errorf("the user has expired at %s",
			a.Expires.Format(time.DateTime))}
	case len(a.From) > 0 && !slices.ContainsFunc(a.From, func(p netip.Prefix) bool {
		return p.Contains(address)
	}):
		return errNetwork
	}
	return nil
}

// admit finds a user. Before anything that the client sends is examined, it decides whether the
// user may log in at all. For one who is kept out it returns no entry, so that the client is
// answered as for a user who does not exist, in the same time; refused says to the server's log
// what it was.
func (d *Directory) admit(conn ssh.ConnMetadata) (e *entry, refused error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if e = d.users[conn.User()]; e == nil {
		return nil, nil
	}
	if refused = e.Admission.check(addressOf(conn.RemoteAddr()), time.Now()); refused != nil {
		return nil, refused
	}
	return e, nil
}
