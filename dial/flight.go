package dial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
)

// A flight is the short login: behind the exchange of keys a signature leaves at once, and the
// request for SFTP with it. It is only sent with a key that is likely to be right, and that signs
// without a person; or with a password that this very program has logged in with before.
type flight struct {
	never      bool // ssh's own way is the way
	session    bool // SFTP is wanted, not just a way through
	left       bool // with a key or a password
	key        *credential
	remembered bool // the key is what another run has noted
	early      bool // ssh would have offered others first
	asked      bool // for SFTP
	told       bool // of the connection
}

// fly decides, once the host's key is accepted, whether to log in with one flight.
func (l *login) fly(conn *own.Conn) *own.Flight {
	l.tellOfConn(conn)
	f := &l.flight
	if f.never {
		return nil
	}
	if l.behind != nil {
		l.watch.pause()
		l.failure = l.follow()
		l.watch.resume(loginStall, "logging in")
		if l.failure != nil {
			return nil
		}
	}
	flight := l.password()
	if flight == nil {
		flight = l.sign()
	}
	if flight == nil {
		return nil
	}
	f.left = true
	if f.session && takesFlight(conn.ServerVersion()) && !l.d.memory.refuses(l.hostKey) {
		f.asked = true
		flight.Subsystem = sftp
		l.d.log.Debug("asking for sftp along with the login", "host", l.s.alias)
	}
	return flight
}

// password is a flight with the password that worked before, nil if something else did.
func (l *login) password() *own.Flight {
	if len(l.replay) != 1 || l.replay[0].method != "password" {
		return nil
	}
	l.began("password", l.replay[0])
	l.d.log.Debug("sending the password that worked before", "host", l.s.alias)
	return &own.Flight{Password: l.replay[0].secret}
}

// sign is a flight with a key, nil if none is likely to be right.
func (l *login) sign() *own.Flight {
	f := &l.flight
	l.load()
	i := l.likely()
	if i < 0 {
		return nil
	}
	f.key, f.early = l.credentials[i], i > 0 && l.replay == nil
	l.credentials = slices.Delete(slices.Clone(l.credentials), i, i+1)
	l.d.log.Debug("signing in without asking first whether the key would do", "host", l.s.alias)
	return &own.Flight{Signer: l.offer(f.key).key}
}

// likely returns the place of the key to sign with unasked, -1 for none: one that worked before, or
// else what ssh would offer first, where it comes from a file and was named for this host alone, or
// is the only key there is. An agent does not say whether its keys need a person.
func (l *login) likely() int {
	if l.replay != nil {
		if r := l.replay[0]; r.method == "publickey" && !r.person {
			return l.find(func(c *credential) bool { return bytes.Equal(c.public.Marshal(), r.key) })
		}
		return -1
	}
	if !l.s.pubkey || l.s.preferred[0] != "publickey" {
		return -1
	}
	if known := l.d.memory.key(l.s.user, l.s.port, l.hostKey); known != "" {
		if i := l.find(func(c *credential) bool {
			return ssh.FingerprintSHA256(c.public) == known
		}); i >= 0 {
			l.flight.remembered = true
			return i
		}
	}
	if len(l.credentials) == 0 || l.credentials[0].agent || !l.credentials[0].alone() {
		return -1
	}
	if len(l.credentials) == 1 || l.s.identitiesOnly {
		return 0
	}
	return -1
}

func (l *login) find(is func(*credential) bool) int {
	return slices.IndexFunc(l.credentials, func(c *credential) bool { return c.alone() && is(c) })
}

// takesFlight reports whether a server is known to keep what comes behind a login until the login
// is done. That of Windows has not been tried.
func takesFlight(version []byte) bool {
	v := string(version)
	return strings.HasPrefix(v, "SSH-2.0-OpenSSH_") && !strings.Contains(v, "OpenSSH_for_Windows")
}

// refused is told of each refusal. A key of RSA's may have been signed with an algorithm that the
// server had no chance to say it does not take: then it is offered once more.
func (l *login) refused(c *own.AuthContext) {
	if l.begun || l.flight.key == nil {
		return
	}
	if len(c.Partial) > 0 {
		return
	}
	l.d.log.Debug("the server refused it", "host", l.s.alias)
	if rsaBits(l.flight.key.public) > 0 && c.SigAlgs != nil &&
		!slices.Contains(c.SigAlgs, ssh.KeyAlgoRSASHA512) && l.replay == nil {
		l.credentials = slices.Insert(l.credentials, 0, l.flight.key)
	}
}

// flightLimit is how long the session that came along with a login may take after it. A server that
// has dropped the request never answers.
const flightLimit = 10 * time.Second

// land waits for the session that was asked for along with the login. It is nil where there was
// none. An error is a server that does not take the flight.
func (l *login) land(conn *own.Conn) (*firstSession, error) {
	if !l.flight.asked {
		return nil, nil
	}
	limit := max(flightLimit, 10*l.trip)
	ctx, cancel := context.WithTimeoutCause(l.ctx, limit, &timeoutError{"asking for sftp", limit})
	defer cancel()
	ch, ok, err := conn.FlightChannel(ctx)
	var refused *own.OpenChannelError
	switch {
	case errors.As(err, &refused):
		l.d.log.Debug("the server refused the channel", "host", l.s.alias)
		return &firstSession{err: ownRefusal(err)}, nil
	case err != nil:
		return nil, &own.FlightError{Err: err}
	case ch == nil: // refused with the key
		return nil, nil
	}
	l.d.log.Debug("sftp came along with the login", "host", l.s.alias, "granted", ok)
	return &firstSession{ch: newOwnChannel(ch), ok: ok}, nil
}

// again reports whether the flight may have cost a login that ssh's own way might get, and returns
// the login that goes that way.
func (l *login) again(err error) *login {
	if err == nil || !l.flight.left || l.ctx.Err() != nil || l.watch.expired() != nil {
		return nil
	}
	var flew *own.FlightError
	var hungUp *own.DisconnectError
	switch {
	case errors.As(l.raw, &flew):
	case l.flight.early && (errors.As(l.raw, &hungUp) || errors.Is(l.raw, io.EOF)):
		// "Too many authentication failures", and one of them was for a key that ssh would have
		// offered later.
	default:
		return nil
	}
	l.d.log.Info("logging in once more, one step after the other", "host", l.s.alias, "error", err)
	return &login{ctx: l.ctx, d: l.d, s: l.s, alone: l.alone, replay: l.replay, lead: l.lead,
		flight: flight{never: true, session: l.flight.session}}
}

// learn notes what this login has shown. before is the login with a flight that came before it and
// failed, or nil.
func (l *login) learn(before *login, err error) {
	m := l.d.memory
	if l.hostKey == nil || l.s.xcrypto {
		return
	}
	if before != nil && before.flight.asked && err == nil {
		m.noteRefusal(l.hostKey)
	}
	switch first := l.worked()[0]; {
	case err == nil && first.method == "publickey" && !first.person:
		if key, perr := ssh.ParsePublicKey(first.key); perr == nil {
			m.noteKey(l.s.user, l.s.port, l.hostKey, ssh.FingerprintSHA256(key))
		}
	case err != nil && l.flight.remembered, err != nil && before != nil && before.flight.remembered:
		m.forgetKey(l.s.user, l.s.port, l.hostKey)
	}
}

// tellOfConn says what ssh -v says of a connection.
func (l *login) tellOfConn(conn *own.Conn) {
	if l.flight.told {
		return
	}
	l.flight.told = true
	n := conn.Algorithms()
	l.d.log.Debug("keys were exchanged", "host", l.s.alias,
		"server", printable(conn.ServerVersion()), "kex", n.KeyExchange, "hostkey", n.HostKey,
		"cipher", n.Ciphers[0], "mac", n.MACs[0])
}
