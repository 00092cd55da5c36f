package sshd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
)

// User is somebody who may log in, and what they may do.
type User struct {
	Name   string
	FS     server.FS
	Policy server.Policy

	// Keys are the user's own; nil when there are none.
	Keys *AuthorizedKeys

	// Bandwidth bounds the user's bytes per second, each way; 0 is no bound.
	Bandwidth int64

	// MaxSessions bounds the user's sessions over all connections; 0 is no bound.
	MaxSessions int
}

// Directory knows the users of a server. Its methods PublicKey and Password are for [Config]. It is
// safe for concurrent use, and Set changes it while the server runs; whoever has logged in stays.
type Directory struct {
	mu          sync.RWMutex
	users       map[string]*entry
	passwords   *Passwords
	authorities *Authorities
	revoked     *RevocationList
}

// entry is a user with the state that the user's logins share.
type entry struct {
	User
	bandwidth *Bandwidth
	sessions  *SessionLimit
}

// Accounts is what a Directory is made of.
type Accounts struct {
	Users       []User
	Passwords   *Passwords      // may be nil: no passwords
	Authorities *Authorities    // may be nil: no certificates, but of those that users' keys name
	Revoked     *RevocationList // may be nil: keys that count for nobody
}

// NewDirectory returns a directory.
func NewDirectory(accounts Accounts) (*Directory, error) {
	d := &Directory{}
	return d, d.Set(accounts)
}

// Set replaces all that the directory knows. Bounds that have not changed go on counting the
// sessions that are there.
func (d *Directory) Set(accounts Accounts) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	users := map[string]*entry{}
	for _, user := range accounts.Users {
		if user.Name == "" || user.FS == nil {
			return fmt.Errorf("sshd: user %q has no name or no directory", user.Name)
		}
		if users[user.Name] != nil {
			return fmt.Errorf("sshd: user %q is defined twice", user.Name)
		}
		if _, err := server.NewView(user.FS, &user.Policy); err != nil {
			return fmt.Errorf("user %s: %w", user.Name, err)
		}
		users[user.Name] = newEntry(user, d.users[user.Name])
	}
	d.users, d.passwords, d.authorities, d.revoked = users, accounts.Passwords, accounts.Authorities, accounts.Revoked
	return nil
}

func newEntry(user User, old *entry) *entry {
	e := &entry{User: user}
	switch {
	case user.Bandwidth <= 0:
	case old != nil && old.Bandwidth == user.Bandwidth:
		e.bandwidth = old.bandwidth
	default:
		e.bandwidth = NewBandwidth(user.Bandwidth)
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
	return &Access{FS: e.FS, Policy: e.Policy, Bandwidth: e.bandwidth, Sessions: e.sessions}
}

var errNoUser = errors.New("there is no such user")

// PublicKey is for Config.PublicKey: a key of the user's own, or a certificate of one of the
// authorities.
func (d *Directory) PublicKey(conn ssh.ConnMetadata, key ssh.PublicKey) (*Access, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.users[conn.User()]
	err := d.checkKey(conn, e, key)
	if e == nil { // only now: time is not to tell who is there
		return nil, errNoUser
	}
	if err != nil {
		return nil, err
	}
	return e.access(), nil
}

// checkKey reports whether a key lets in a user, who may be unknown (nil).
func (d *Directory) checkKey(conn ssh.ConnMetadata, e *entry, key ssh.PublicKey) error {
	address := addressOf(conn.RemoteAddr())
	err := errUnknownKey
	if e != nil && e.Keys != nil {
		if err = e.Keys.check(e.Name, key, address, d.revoked, time.Now()); err == nil {
			return nil
		}
	}
	certificate, ok := key.(*ssh.Certificate)
	if !ok || d.authorities == nil || d.revoked != nil &&
		d.revoked.CertificateRevoked(certificate) {
		return err
	}
	return d.authorities.Check(conn.User(), certificate, address)
}

// passwordPatience bounds how long a login waits for its password to be looked at, when many are.
const passwordPatience = 20 * time.Second

// Password is for Config.Password.
func (d *Directory) Password(conn ssh.ConnMetadata, password string) (*Access, error) {
	d.mu.RLock()
	e, passwords := d.users[conn.User()], d.passwords
	d.mu.RUnlock()
	if passwords == nil {
		return nil, errWrongPassword
	}
	ctx, cancel := context.WithTimeout(context.Background(), passwordPatience)
	defer cancel()
	if err := passwords.Check(ctx, conn.User(), password); err != nil {
		return nil, err
	}
	if e == nil {
		return nil, errWrongPassword
	}
	return e.access(), nil
}
