package dial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
)

// A flight is the short login: right after the key exchange a signature goes out together with the
// request for SFTP. It is sent only with a key that is likely to be right and that signs without a
// person, or with a password with which this process has logged in before.
type flight struct {
	never      bool // log in step by step, as ssh does
	session    bool // SFTP is wanted; otherwise only a tunnel
	key        *credential
	remembered bool // the key was noted by an earlier run
	asked      bool // SFTP was requested along with the login
	conn       *own.Conn
}

// startFlight decides, once the host's key is accepted, whether to log in with one flight.
func (l *login) startFlight(conn *own.Conn) *own.Flight {
	l.logConn(conn)
	l.ring.bind(conn)
	l.expectSuccess()
	f := &l.flight
	if f.never {
		return nil
	}
	if l.waitsFor != nil {
		l.watch.pause()
		l.failure = l.follow()
		l.resume()
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
	program := l.d.config.sftp()
	if f.session && !l.s.compress && program.request == "subsystem" &&
		takesFlight(conn.ServerVersion()) && !l.d.memory.refuses(l.hostKey) {
		f.asked = true
		flight.Subsystem = program.name
		l.d.log.Debug("asking for sftp along with the login", "host", l.s.alias)
	}
	return flight
}

// password returns a flight with the password that worked before, or nil if another method worked.
func (l *login) password() *own.Flight {
	if len(l.replay) != 1 || l.replay[0].method != "password" {
		return nil
	}
	l.startMethod("password", l.replay[0])
	l.d.log.Debug("sending the password that worked before", "host", l.s.alias)
	return &own.Flight{Password: l.replay[0].secret}
}

// sign returns a flight with a key, or nil if none is likely to be right.
func (l *login) sign() *own.Flight {
	f := &l.flight
	l.load()
	i := l.likely()
	if i < 0 {
		return nil
	}
	f.key = l.credentials[i]
	l.credentials = slices.Delete(slices.Clone(l.credentials), i, i+1)
	l.d.log.Debug("signing before the server has accepted the key", "host", l.s.alias)
	return &own.Flight{Signer: l.offer(f.key).key}
}

// likely returns the index of the key with which to sign unasked, or -1 for none. It is a key that
// worked before, or else the first key that ssh would offer, if it comes from a file and either
// IdentitiesOnly is set or there is no other key. An agent does not say whether its keys need a
// person.
func (l *login) likely() int {
	if l.replay != nil {
		if r := l.replay[0]; r.method == "publickey" && !r.person && !r.offer {
			return l.find(func(c *credential) bool {
				return bytes.Equal(c.public.Marshal(), r.key)
			})
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

// takesFlight reports whether a server is known to queue messages that follow a login request until
// the login is done. OpenSSH for Windows has not been tested.
func takesFlight(version []byte) bool {
	v := string(version)
	return strings.HasPrefix(v, "SSH-2.0-usftp") ||
		strings.HasPrefix(v, "SSH-2.0-OpenSSH_") && !strings.Contains(v, "OpenSSH_for_Windows")
}

// refused handles each refusal.
func (l *login) refused(c *own.AuthContext) {
	if l.anyRefused || l.flight.key == nil || len(c.Partial) > 0 {
		return
	}
	l.d.log.Debug("the server refused the key", "host", l.s.alias)
	if l.mayHaveMisSigned() && l.replay == nil {
		l.credentials = slices.Insert(l.credentials, 0, l.flight.key)
	}
}

// mayHaveMisSigned reports whether the flight's RSA key may have signed with an algorithm that the
// server does not support, which it had no chance to say. Such a key must be offered again.
func (l *login) mayHaveMisSigned() bool {
	return l.flight.key != nil && l.misSigns(l.flight.key)
}

// misSigns reports whether the server has said that it does not support the algorithm with which a
// key signs in a flight.
func (l *login) misSigns(c *credential) bool {
	conn := l.flight.conn
	return rsaBits(c.public) > 0 && conn != nil && conn.SigAlgs() != nil &&
		!slices.Contains(conn.SigAlgs(), ssh.KeyAlgoRSASHA512)
}

// flightLimit is how long after the login the session that was requested along with it may take
// before the server is asked for a sign of life. A server that dropped the request never answers
// it.
const flightLimit = 10 * time.Second

// flightGrace is how long after the sign of life the session may still arrive.
const flightGrace = 500 * time.Millisecond

// awaitSession waits for the session that was requested along with the login. It returns nil if
// there was none. An error means that the server does not support the flight.
func (l *login) awaitSession(conn *own.Conn) (*firstSession, error) {
	if !l.flight.asked {
		return nil, nil
	}
	l.watch.resume(cmp.Or(l.s.connectTimeout, loginStall), "asking for sftp")
	limit := max(flightLimit, 10*l.roundTrip)
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	defer time.AfterFunc(limit, func() {
		// A server answers in order. So if it answers this, it has dropped the flight; if not, it
		// is busy, such as sshd while PAM opens the session.
		if err := (ownTransport{conn}).keepalive(ctx); err == nil {
			time.AfterFunc(flightGrace, func() { cancel(&timeoutError{"asking for sftp", limit}) })
		}
	}).Stop()
	ch, ok, err := conn.FlightChannel(ctx)
	if _, refused := errors.AsType[*own.OpenChannelError](err); refused {
		l.d.log.Debug("the server refused the channel", "host", l.s.alias)
		return &firstSession{err: ownRefusal(err)}, nil
	}
	if err != nil {
		return nil, &own.FlightError{Err: err, Answered: true}
	}
	if ch == nil { // refused with the key
		return nil, nil
	}
	l.d.log.Debug("sftp was opened along with the login", "host", l.s.alias, "granted", ok)
	return &firstSession{ch: newOwnChannel(ch), ok: ok}, nil
}

// retry returns a login that goes step by step, as ssh does, if that may succeed where this one
// failed; otherwise nil.
func (l *login) retry(err error) *login {
	if err == nil || l.ctx.Err() != nil || l.watch.expired() != nil {
		return nil
	}
	var only []*credential
	if _, flew := errors.AsType[*own.FlightError](l.raw); !flew {
		if l.replay != nil || !connectionEnded(l.raw) {
			return nil
		}
		// "Too many authentication failures", some for keys that ssh would have offered later or
		// not at all.
		if only = l.passedOver(); len(only) == 0 {
			return nil
		}
		if !disconnected(l.raw) {
			only = nil // it is not certain that the last key was refused
		}
	}
	l.d.log.Info("logging in again, step by step", "host", l.s.alias, "error", err)
	next := &login{ctx: l.ctx, d: l.d, s: l.s, alone: l.alone, replay: l.replay, first: l.first,
		only: only, flight: flight{never: true, session: l.flight.session}}
	if only != nil {
		next.before = l.keysOffered()
	}
	return next
}

// passedOver returns the keys that ssh would have offered within as many attempts, and that this
// login has not.
func (l *login) passedOver() []*credential {
	offered := l.offered
	if l.mayHaveMisSigned() && len(offered) == 1 {
		return offered
	}
	keys := slices.SortedStableFunc(slices.Values(l.all), byTurn)
	keys = keys[:min(len(offered), len(keys))]
	return slices.DeleteFunc(keys, func(c *credential) bool {
		return slices.ContainsFunc(offered, c.same)
	})
}

// connectionEnded reports whether the server, or the network, ended the connection.
func connectionEnded(err error) bool {
	_, failed := errors.AsType[*net.OpError](err)
	return failed || disconnected(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// disconnected reports whether the server ended the connection and gave a reason.
func disconnected(err error) bool {
	_, ok := errors.AsType[*own.DisconnectError](err)
	return ok
}

// refusesFlight reports whether a login failed because the server does not support the flight,
// rather than for another reason or because the link was cut, if that can be told: before the
// server had answered anything, or in silence.
func refusesFlight(err error) bool {
	flew, ok := errors.AsType[*own.FlightError](err)
	if !ok {
		return false
	}
	failed, ok := errors.AsType[net.Error](err)
	silent := ok && failed.Timeout()
	return disconnected(err) || !connectionEnded(err) || flew.Answered && !silent
}

// learn remembers the facts that this login has shown. before is the login with a flight that
// failed just before, or nil.
func (l *login) learn(before *login, err error) {
	m := l.d.memory
	if l.hostKey == nil || l.s.xcrypto {
		return
	}
	if before != nil && before.flight.asked && refusesFlight(before.raw) && err == nil {
		m.noteRefusal(l.hostKey)
	}
	switch first := l.worked()[0]; {
	case err == nil && first.method == "publickey" && !first.person:
		if key, perr := ssh.ParsePublicKey(first.key); perr == nil {
			m.noteKey(l.s.user, l.s.port, l.hostKey, ssh.FingerprintSHA256(key))
		}
	case l.refusedRemembered(), before != nil && before.refusedRemembered():
		m.forgetKey(l.s.user, l.s.port, l.hostKey)
	}
}

// refusedRemembered reports whether the server has refused the key that an earlier run noted.
func (l *login) refusedRemembered() bool {
	return l.flight.remembered && (l.anyRefused || disconnected(l.raw))
}

// logConn logs the facts that ssh -v prints about a connection.
func (l *login) logConn(conn *own.Conn) {
	if l.flight.conn != nil {
		return
	}
	l.flight.conn = conn
	n := conn.Algorithms()
	l.d.log.Debug("keys were exchanged", "host", l.s.alias,
		"server", printable(conn.ServerVersion()), "kex", n.KeyExchange, "hostkey", n.HostKey,
		"cipher", n.Ciphers[0], "mac", n.MACs[0], "compression", n.Compressions[0])
}
