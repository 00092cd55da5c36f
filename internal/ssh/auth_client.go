package ssh

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// AuthContext describes the login so far, for choosing the next [AuthMethod].
type AuthContext struct {
	Conn    *Conn
	Allowed []string // methods the server would accept
	Partial []string // methods that succeeded but did not suffice, in order
	Tried   []string // methods that failed, in order
	// Err is why the last attempt could not be made, such as a key that cannot sign or a question
	// that nobody answers; nil if the server refused.
	Err error
}

// localError is a failure on our side: another attempt may follow.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// A Flight is a short login: everything after NEWKEYS is sent at once, signed with a key that is
// likely to be right, or with a password that was right before. It saves three round trips. The
// server must queue later messages until the login is done, as OpenSSH does; RFC 4252, section 5.1,
// allows them. No part of it is sent before the host key is accepted.
//
// A refused key or password costs the same as if it had been offered: one failed attempt. The login
// then continues with [ClientConfig].Auth.
type Flight struct {
	Signer   xssh.Signer
	Password string // if Signer is nil
	// Subsystem, if not "", is requested in a first session channel, which the server must give
	// number 0, unless the connection is compressed. See [Conn.FlightChannel].
	Subsystem string
}

// decision is a server's answer to one attempt.
type decision struct {
	success bool
	failure authFailure
}

// clientLogin is the client's side of RFC 4252.
type clientLogin struct {
	*transport
	conn          *Conn
	config        *ClientConfig
	context       AuthContext
	flight        *Flight
	flightPending bool   // the flight, with a request for a subsystem, is sent and not decided
	first         string // the method of the first attempt
	accepted      bool   // the service was accepted
	banners       int
}

// firstMessages returns the messages sent with NEWKEYS: the service request, and the first attempt.
func (l *clientLogin) firstMessages() ([][]byte, error) {
	words := [][]byte{appendString([]byte{msgServiceRequest}, serviceUserAuth)}
	if l.config.Flight != nil {
		l.flight = l.config.Flight(l.conn)
	}
	attempt := l.firstAttempt()
	if attempt == nil { // log in as ssh does
		l.flight, l.first = nil, "none"
		return append(words, l.request("none", nil)), nil
	}
	words = append(words, attempt)
	// With compression the server would take messages that follow the login for compressed, if the
	// login succeeds.
	if l.flightPending = l.flight.Subsystem != "" &&
		l.negotiated.Compressions[clientToServer] != delayedZlib; l.flightPending {
		words = append(words, l.conn.mux.flight(l.flight.Subsystem)...)
	}
	return words, nil
}

// firstAttempt returns the flight's request, or nil if there is none or the key cannot sign.
func (l *clientLogin) firstAttempt() []byte {
	switch f := l.flight; {
	case f == nil:
		return nil
	case f.Signer == nil:
		l.first = "password"
		return l.passwordRequest(f.Password)
	}
	l.first = "publickey"
	algos := l.algos(l.flight.Signer)
	if len(algos) == 0 {
		return nil
	}
	signed, err := l.signed(l.flight.Signer, algos[0])
	if err != nil {
		return nil
	}
	return signed
}

func (l *clientLogin) request(method string, rest []byte) []byte {
	return (&authRequest{l.config.User, serviceConnection, method, rest}).append(nil)
}

// algos returns the algorithms under which to offer a key: those that the server has listed, if it
// has sent a list (RFC 8308, section 3.1).
func (l *clientLogin) algos(signer xssh.Signer) []string {
	algos := signatureAlgos(signer)
	unknown := func(algo string) bool {
		return !slices.Contains(l.serverSigAlgs, algo) &&
			!slices.Contains(l.serverSigAlgs, BaseAlgo(algo))
	}
	if some := slices.DeleteFunc(slices.Clone(algos), unknown); len(some) > 0 {
		return some
	}
	return algos // the server has sent no list, or an incomplete one
}

// signed returns a request with a signature.
func (l *clientLogin) signed(signer xssh.Signer, algo string) ([]byte, error) {
	a := &authRequest{user: l.config.User, service: serviceConnection, method: "publickey"}
	k := keyRequest{signed: true, algo: algo, key: signer.PublicKey().Marshal()}
	s, err := sign(signer, a.signedData(l.session, k), algo)
	if err != nil {
		return nil, err
	}
	k.signature = appendSignature(nil, s)
	a.rest = k.append(nil)
	return a.append(nil), nil
}

// run logs in. The first attempt has already been sent.
func (l *clientLogin) run() error {
	var asked func([]byte) error
	if l.first == "password" {
		asked = l.changePassword(nil)
	}
	d, err := l.decide(asked)
	if err != nil {
		local, isLocal := errors.AsType[*localError](err)
		said, ended := errors.AsType[*DisconnectError](err)
		switch {
		case isLocal:
			err = local.err
		case l.flight != nil && ended && strings.Contains(strings.ToLower(said.Text),
			"authentication fail"): // the server allows only one attempt
		default:
			return err
		}
		l.flightPending = false
		l.failed(l.first, decision{})
		return l.refused(err)
	}
	l.flightPending = false
	if d.success {
		return nil
	}
	l.failed(l.first, d)
	if l.flight != nil {
		l.conn.mux.forgetFlight()
	}
	for {
		var method AuthMethod
		var err error
		if l.config.Auth != nil {
			method, err = l.config.Auth(&l.context)
		}
		if err == nil && method == nil {
			err = errors.New("no other way to log in")
		}
		if err != nil {
			return l.refused(err)
		}
		d, err := method.attempt(l)
		l.context.Err = nil
		local, isLocal := errors.AsType[*localError](err)
		switch {
		case isLocal && len(l.context.Tried) < maxAttempts:
			d.failure.methods = l.context.Allowed
			l.context.Err = local.err
		case err != nil:
			return l.refused(err)
		case d.success:
			return nil
		}
		l.failed(method.name(), d)
	}
}

func (l *clientLogin) refused(err error) error {
	return &AuthError{Allowed: l.context.Allowed, Tried: l.context.Tried, Err: err}
}

// maxAttempts limits how often a login may fail: the server decides, but not forever.
const maxAttempts = 200

func (l *clientLogin) failed(method string, d decision) {
	l.context.Allowed = d.failure.methods
	if d.failure.partial {
		l.context.Partial = append(l.context.Partial, method)
	} else if method != "none" {
		l.context.Tried = append(l.context.Tried, method)
	}
}

// decide reads until the server decides. ask handles the method's own messages.
func (l *clientLogin) decide(ask func(payload []byte) error) (decision, error) {
	if len(l.context.Tried)+len(l.context.Partial) > maxAttempts {
		return decision{}, &ProtocolError{"the login needs too many attempts"}
	}
	for {
		p, err := l.read()
		if err != nil {
			return decision{}, err
		}
		switch p[0] {
		case msgServiceAccept:
			r := body(p, msgServiceAccept)
			// Some servers leave the name out.
			if service := r.String(); l.accepted || r.Err() == nil && service != serviceUserAuth {
				return decision{}, &ProtocolError{"unexpected SERVICE_ACCEPT"}
			}
			l.accepted = true
		case msgUserAuthBanner:
			text, err := parseBanner(p)
			if err != nil {
				return decision{}, err
			}
			if l.banners++; l.banners > maxQuestions {
				return decision{}, &ProtocolError{"the server sends too many banners"}
			}
			if l.config.Banner != nil {
				if err := l.config.Banner(text); err != nil {
					return decision{}, err
				}
			}
		case msgUserAuthSuccess:
			if !l.accepted {
				return decision{}, &ProtocolError{"USERAUTH_SUCCESS without a request"}
			}
			return decision{success: true}, nil
		case msgUserAuthFailure:
			var d decision
			err := d.failure.parse(p)
			return d, err
		default:
			if ask == nil || p[0] != msgUserAuthPubKeyOK {
				return decision{}, unexpected(p, msgUserAuthFailure)
			}
			if err := ask(p); err != nil {
				return decision{}, err
			}
		}
	}
}

// A PasswordChange asks for the old password and a new one. text is the server's: why it wants a
// new password, or why it refused the last one.
type PasswordChange func(text string) (old, fresh string, err error)

type passwordMethod struct {
	ask    func() (string, error)
	change PasswordChange
}

// Password logs in with a password, which is asked for only when needed. If the server wants a new
// one, change is called; if that is nil the attempt fails with a [*PasswordExpiredError].
func Password(ask func() (string, error), change PasswordChange) AuthMethod {
	return passwordMethod{ask, change}
}

func (passwordMethod) name() string { return "password" }

// A PasswordExpiredError reports that the server wants a new password: RFC 4252, section 8.
type PasswordExpiredError struct {
	Text string // the server's
}

func (e *PasswordExpiredError) Error() string {
	return fmt.Sprintf("the server wants a new password: %q", e.Text)
}

func (m passwordMethod) attempt(l *clientLogin) (decision, error) {
	password, err := m.ask()
	if err != nil {
		return decision{}, &localError{err}
	}
	if err := l.send(l.passwordRequest(password)); err != nil {
		return decision{}, err
	}
	return l.decide(l.changePassword(m.change))
}

// passwordRequest returns a request without a password change: RFC 4252, section 8.
func (l *clientLogin) passwordRequest(password string) []byte {
	return l.request("password", appendString(appendBool(nil, false), password))
}

// changePassword returns a function that answers PASSWD_CHANGEREQ: RFC 4252, section 8.
func (l *clientLogin) changePassword(change PasswordChange) func([]byte) error {
	asked := 0
	return func(p []byte) error {
		r := body(p, msgUserAuthPasswordChange)
		text := string(cut(r.Bytes(), 1024))
		if err := r.parsed(); err != nil { // some servers leave out the language tag
			return err
		}
		if change == nil {
			return &localError{&PasswordExpiredError{text}}
		}
		if asked++; asked > maxQuestions {
			return &ProtocolError{"the server wants too many new passwords"}
		}
		old, fresh, err := change(text)
		if err != nil {
			return &localError{err}
		}
		return l.send(l.request("password",
			appendString(appendString(appendBool(nil, true), old), fresh)))
	}
}

type keyMethod struct{ signer xssh.Signer }

// PublicKey offers a key, and signs with it once the server has said that it would accept it.
func PublicKey(signer xssh.Signer) AuthMethod { return keyMethod{signer} }

func (keyMethod) name() string { return "publickey" }

func (m keyMethod) attempt(l *clientLogin) (decision, error) {
	algos := l.algos(m.signer)
	if len(algos) == 0 {
		return decision{}, &localError{fmt.Errorf("ssh: a key of type %s cannot be used here",
			m.signer.PublicKey().Type())}
	}
	k := keyRequest{algo: algos[0], key: m.signer.PublicKey().Marshal()}
	if err := l.send(l.request("publickey", k.append(nil))); err != nil {
		return decision{}, err
	}
	asked := false
	return l.decide(func(p []byte) error {
		r := body(p, msgUserAuthPubKeyOK)
		r.Bytes() // some servers send the key's type instead of the algorithm
		key := r.Bytes()
		if err := r.parsed(); err != nil {
			return err
		}
		if asked || string(key) != string(k.key) {
			return &ProtocolError{"the server accepted a key that was not offered"}
		}
		asked = true
		signed, err := l.signed(m.signer, k.algo)
		if err != nil {
			return &localError{err}
		}
		return l.send(signed)
	})
}

type keyboardMethod struct{ challenge Challenge }

// KeyboardInteractive answers the server's questions.
func KeyboardInteractive(challenge Challenge) AuthMethod { return keyboardMethod{challenge} }

func (keyboardMethod) name() string { return "keyboard-interactive" }

func (m keyboardMethod) attempt(l *clientLogin) (decision, error) {
	// RFC 4256, section 3.1: language and submethods are left to the server.
	request := l.request("keyboard-interactive", appendString(appendString(nil, ""), ""))
	if err := l.send(request); err != nil {
		return decision{}, err
	}
	rounds := 0
	return l.decide(func(p []byte) error {
		var q infoRequest
		if err := q.parse(p); err != nil {
			return err
		}
		if rounds++; rounds > maxQuestions {
			return &ProtocolError{"the server asks too many questions"}
		}
		answers, err := m.challenge(q.name, q.instruction, q.questions, q.echos)
		if err == nil && len(answers) != len(q.questions) {
			err = errors.New("ssh: the wrong number of answers")
		}
		if err != nil {
			return &localError{err}
		}
		return l.send(appendInfoResponse(nil, answers))
	})
}
