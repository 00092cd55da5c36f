package sshd

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Admission limits when and from where a user may log in. The zero Admission allows everything.
type Admission struct {
	// Disabled refuses all logins.
	Disabled bool

	// Expires, if not zero, is the time from which logins are refused.
	Expires time.Time

	// From, if not empty, lists the only networks from which logins are accepted. An IPv4 address
	// never belongs to an IPv6 network.
	From []netip.Prefix

	// Gone, if not nil, is asked at each login whether the user has been disabled or removed where
	// users are kept: the directory may hear of it later. It is asked again whenever Logins or
	// EndLogins makes a [Login].
	Gone func() bool
}

// ErrNotAdmitted is matched by the errors of logins that [Admission] refuses, and of logins by
// users whose files cannot be served.
var ErrNotAdmitted = errors.New("the user may not log in")

// notAdmitted is the reason why a user is kept out.
type notAdmitted struct{ error }

func (n notAdmitted) Is(target error) bool { return target == ErrNotAdmitted }
func (n notAdmitted) Unwrap() error        { return n.error }

var (
	errDisabled = notAdmitted{errors.New("the user is disabled")}
	errGone     = notAdmitted{errors.New("the user has just been disabled or removed")}
	errNetwork  = notAdmitted{errors.New("the user may not log in from this address")}
)

// check returns an error if a user is kept out.
func (a *Admission) check(address netip.Addr, now time.Time) error {
	switch {
	case a.Disabled:
		return errDisabled
	case a.Gone != nil && a.Gone():
		return errGone
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

// admit finds a user. Before any secret from the client is examined, it decides whether the user
// may log in at all. For a user who is kept out it returns no entry, so that the answer is the same
// as for an unknown user, in the same time; refused is the reason, for the server's log.
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
