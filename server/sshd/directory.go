package sshd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
)

// User is an account that may log in, with its rights.
type User struct {
	Name   string
	FS     server.FS
	Policy server.Policy

	// Open, if FS is nil, returns FS and Policy when the user has logged in. Its error ends the
	// connection.
	Open func() (server.FS, server.Policy, error)

	// Admission limits when and from where the user may log in.
	Admission Admission

	// Keys are the user's own keys; nil means none.
	Keys *AuthorizedKeys

	// Bandwidth limits the user's bytes per second.
	Bandwidth Rates

	// MaxSessions limits the user's sessions over all connections; 0 means 100.
	MaxSessions int

	// Second, if not nil, decides on the code that the user is asked for after a key or a password;
	// see [Access].
	Second func(conn ssh.ConnMetadata, code string) error

	// Renew, if not nil, is called after a right password. If that must be changed, Renew returns a
	// function that changes it, whose error may be an [*UnacceptablePassword].
	Renew func(old string) func(fresh string) error

	// Outside leaves the user's passwords to [Accounts].Outside.
	Outside bool
}

// Directory holds the users of a server. Its methods PublicKey and Password are for [Config]. It is
// safe for concurrent use. Set replaces its contents while the server runs, without affecting users
// who are logged in.
type Directory struct {
	mu          sync.RWMutex
	users       map[string]*entry
	passwords   *Passwords
	authorities *Authorities
	revoked     *RevocationList
	limits      Limits
	outside     Outside
	guests      map[string]*entry // users of outside alone, for their limits; not all
}

// entry is a user with the state shared by the user's logins.
type entry struct {
	User
	bandwidth Bandwidth
	sessions  Sessions
	guest     bool // known to outside alone
}

// Accounts are the contents of a Directory.
type Accounts struct {
	Users       []User
	Passwords   *Passwords      // nil: no passwords
	Authorities *Authorities    // nil: no certificates except those that users' keys allow
	Revoked     *RevocationList // nil: no keys are revoked
	Limits      Limits          // nil: each Directory has its own
	Outside     Outside         // nil: no outside passwords
}

// Limits makes the limits of users. Each is requested again whenever a Directory is set, and may be
// one that was returned before.
type Limits interface {
	Bandwidth(user string, rates Rates) Bandwidth
	Sessions(user string, most int) Sessions
}

// NewDirectory returns a directory. It fails if a user has no name, or neither FS nor Open, is
// listed twice, or has a policy that names unknown operations.
func NewDirectory(accounts Accounts) (*Directory, error) {
	d := &Directory{}
	return d, d.Set(accounts)
}

// Set replaces the directory's contents, or fails as NewDirectory does and changes nothing. Limits
// that have not changed keep counting the existing sessions.
func (d *Directory) Set(accounts Accounts) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	users := map[string]*entry{}
	for _, user := range accounts.Users {
		if user.Name == "" || user.FS == nil && user.Open == nil {
			return fmt.Errorf("sshd: user %q has no name or no directory", user.Name)
		}
		if users[user.Name] != nil {
			return fmt.Errorf("sshd: user %q is defined twice", user.Name)
		}
		if _, err := server.NewView(user.FS, &user.Policy); err != nil {
			return fmt.Errorf("user %s: %w", user.Name, err)
		}
		users[user.Name] = newEntry(user, d.users[user.Name], accounts.Limits)
	}
	d.users, d.passwords, d.authorities, d.revoked = users, accounts.Passwords,
		accounts.Authorities, accounts.Revoked
	d.outside, d.limits = accounts.Outside, accounts.Limits
	return nil
}

func newEntry(user User, old *entry, limits Limits) *entry {
	e := &entry{User: user}
	if limits != nil {
		if user.Bandwidth != (Rates{}) {
			e.bandwidth = limits.Bandwidth(user.Name, user.Bandwidth)
		}
		e.sessions = limits.Sessions(user.Name, cmp.Or(max(user.MaxSessions, 0), userMost))
		return e
	}
	switch {
	case user.Bandwidth == (Rates{}):
	case old != nil && old.Bandwidth == user.Bandwidth:
		e.bandwidth = old.bandwidth
	default:
		e.bandwidth = NewRateLimit(user.Bandwidth)
	}
	switch {
	case user.MaxSessions <= 0:
	case old != nil && old.MaxSessions == user.MaxSessions:
		e.sessions = old.sessions
	default:
		e.sessions = NewSessionLimit(user.MaxSessions)
	}
	return e
}

func (e *entry) access() *Access {
	return &Access{FS: e.FS, Policy: e.Policy, Open: e.Open, Bandwidth: e.bandwidth,
		Sessions: e.sessions, Second: e.Second, gone: e.Admission.Gone}
}

// access returns a user's Access, which holds as long as the user exists and may log in.
func (d *Directory) access(conn ssh.ConnMetadata, e *entry) *Access {
	access := e.access()
	access.Admit = func() error {
		now, refused := d.admit(conn)
		switch {
		case now != nil || refused != nil:
			return refused
		case e.guest:
			return e.Admission.check(addressOf(conn.RemoteAddr()), time.Now())
		}
		return errNoUser
	}
	return access
}

var errNoUser = errors.New("no such user")

// PublicKey checks a user's key, as Config.PublicKey. It accepts a user's own keys, and
// certificates of the authorities.
func (d *Directory) PublicKey(conn ssh.ConnMetadata, key ssh.PublicKey) (*Access, error) {
	if certificate, ok := key.(*ssh.Certificate); ok {
		// Before looking up the user: it takes long, and must take equally long for all names.
		if err := verifyCertificate(certificate); err != nil {
			return nil, err
		}
	}
	e, refused := d.admit(conn)
	err := d.checkKey(conn, e, key)
	// checked last, so that timing does not reveal which users exist
	if refused != nil {
		return nil, refused
	}
	if e == nil {
		return nil, errNoUser
	}
	if err != nil {
		return nil, err
	}
	return d.access(conn, e), nil
}

// checkKey returns nil if a key, or a certificate whose signature has been verified, admits the
// user. e is nil for an unknown user.
func (d *Directory) checkKey(conn ssh.ConnMetadata, e *entry, key ssh.PublicKey) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	address := addressOf(conn.RemoteAddr())
	err := errUnknownKey
	if e != nil && e.Keys != nil {
		if err = e.Keys.check(e.Name, key, address, d.revoked, time.Now()); err == nil {
			return nil
		}
	}
	certificate, ok := key.(*ssh.Certificate)
	if !ok || d.authorities == nil {
		return err
	}
	if d.revoked.CertificateRevoked(certificate) {
		return errRevoked
	}
	return d.authorities.check(conn.User(), certificate, address)
}

// passwordPatience limits the time that a login waits for its password to be checked when many are.
const passwordPatience = 20 * time.Second

// Password checks a user's password, as Config.Password.
func (d *Directory) Password(conn ssh.ConnMetadata, password string) (*Access, error) {
	e, refused := d.admit(conn)
	d.mu.RLock()
	passwords, outside := d.passwords, d.outside
	d.mu.RUnlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), passwordPatience)
	defer cancel()
	err := errWrongPassword
	if passwords != nil { // also without a hash of the user's, to take the same time
		name := "" // nobody's name: takes as long as for a user who does not exist
		if e != nil {
			name = e.Name
		}
		err = passwords.Check(ctx, name, password)
	}
	if outside != nil && refused == nil && (e == nil || e.Outside) {
		e, err = d.ask(outside, conn, e, password)
	}
	if err == nil && e == nil {
		err = errWrongPassword
	}
	if err != nil {
		if outside != nil {
			evenOut(began)
		}
		return nil, cmp.Or(refused, err)
	}
	access := d.access(conn, e)
	if e.Renew != nil {
		access.Renew = e.Renew(password)
	}
	return access, nil
}
