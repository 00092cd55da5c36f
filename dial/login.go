package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
)

// clientVersion is our version line.
const clientVersion = "SSH-2.0-usftp"

const (
	// loginStall limits each wait for the server during a login where ConnectTimeout does not. It
	// is sshd's default LoginGraceTime.
	loginStall = 2 * time.Minute
	// notSSHWait is how long a peer that began with something other than SSH has to send its
	// version.
	notSSHWait = 5 * time.Second
)

// A step is a method that succeeded, by itself or as one of several that the server wanted.
type step struct {
	method string
	key    []byte // publickey: the public key as sent
	secret string // the password, or the single answer to keyboard-interactive
	person bool   // needs a person each time
	offer  bool   // publickey: the server does not take the signature that a flight would have
}

// needPerson reports whether a login with these steps needs a person each time.
func needPerson(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.person })
}

// A login is one attempt to log in to one server.
type login struct {
	ctx   context.Context
	d     *Dialer
	s     *settings
	watch *watchdog
	ring  *keyring
	// alone means that nobody may be asked for anything or have to touch a token.
	alone bool
	// replay, if not nil, holds the steps that worked before: nothing else is offered.
	replay   []step
	first    *firstLogin // set if this is the first login
	waitsFor *firstLogin // the first login, for which this one waits

	direct    bool          // without a jump host or ProxyCommand
	roundTrip time.Duration // the shortest round trip seen
	keyed     time.Time     // when the keys were exchanged

	flight        flight
	anyRefused    bool          // the server has refused "none" or the flight's key
	credentials   []*credential // not offered yet
	all           []*credential
	only          []*credential // if not nil, the only credentials to offer
	before        []string      // keys that the login before this one offered
	loaded        bool
	pwTries       int
	passwords     []string // sent so far
	kbdTries      int
	kbdAsked      bool // whether the server asked anything; if not, no second try
	current       step
	done          []step
	offered       []*credential
	tried         []string
	bannered      bool // the server has sent a message to show
	hostKeyErr    error
	hostKey       ssh.PublicKey // the first key accepted
	failure       error         // why the callback gave up
	raw           error         // the transport's error
	interactError error         // why a question was not answered
}

// run logs in over r, which the caller closes.
func (l *login) run(r *route, sniff *sniffer) (transport, *firstSession, error) {
	checker, err := l.knownHosts()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	l.ring = openKeyring(ctx, l.s, l.d.asker)
	defer l.ring.close()
	end := func() {
		r.cut()
		cancel()
		l.ring.close() // an agent may hang, too
	}
	stop := context.AfterFunc(l.ctx, end)
	defer stop()
	l.watch.start(end)
	defer l.watch.stop()
	check := func(remote net.Addr, key ssh.PublicKey) error { return l.check(checker, remote, key) }
	var t transport
	var first *firstSession
	if l.s.xcrypto {
		t, err = l.runXcrypto(r, checker.algorithms(), check)
	} else {
		t, first, err = l.runOwn(r, checker.algorithms(), check)
	}
	if err != nil {
		l.raw = err
		return nil, nil, l.explain(err, sniff)
	}
	return t, first, nil
}

// knownHosts reads the known hosts. They may be in a pipe, which is waited for as the server is.
func (l *login) knownHosts() (*hostKeyChecker, error) {
	limit := cmp.Or(l.s.connectTimeout, loginStall)
	ctx, cancel := context.WithTimeoutCause(l.ctx, limit, &timeoutError{"reading it", limit})
	defer cancel()
	return newHostKeyChecker(ctx, l.s, l.d.asker)
}

// resume lets the clock run again. ConnectTimeout limits each wait for the server as long as no
// person can be involved at the other end: the server's reply to a password or an answer may wait
// for somebody to approve it on a telephone, and a banner may say where to approve the login, as
// ssh would wait.
func (l *login) resume() {
	limit := cmp.Or(l.s.connectTimeout, loginStall)
	if l.bannered || l.current.method == "password" ||
		l.current.method == "keyboard-interactive" {
		limit = loginStall
	}
	l.watch.resume(limit, "logging in")
}

// check decides whether to accept the host's key.
func (l *login) check(checker *hostKeyChecker, remote net.Addr, key ssh.PublicKey) error {
	l.watch.pause()
	l.hostKeyErr = checker.check(l.ctx, remote, key)
	first := l.hostKey == nil // x/crypto/ssh asks again at each key exchange
	l.keyed = time.Now()
	l.resume()
	if l.hostKeyErr == nil && first {
		l.hostKey = key
		l.d.log.Debug("the host's key is accepted", "host", l.s.alias, "type", keyTypeName(key),
			"fingerprint", ssh.FingerprintSHA256(key))
		if l.s.xcrypto {
			l.expectSuccess()
		}
	}
	return l.hostKeyErr
}

// runOwn runs the login over package internal/ssh.
func (l *login) runOwn(r *route, hostKeys []string,
	check func(net.Addr, ssh.PublicKey) error) (transport, *firstSession, error) {
	r.compressed = l.d.config.Compression.counts()
	conn, err := own.Client(l.ctx, r.conn, &own.ClientConfig{
		User: l.s.user, Version: clientVersion,
		RekeyBytes: int64(l.s.rekeyBytes), RekeyAfter: l.s.rekeyAfter,
		Algorithms: own.Algorithms{KeyExchanges: l.s.kexes, HostKeys: hostKeys,
			Ciphers: l.s.ciphers, MACs: l.s.macs, Compress: l.s.compress,
			Compressed: r.compressed},
		Buffers: &l.d.buffers,
		HostKey: func(remote net.Addr, key ssh.PublicKey, _ string) error {
			return check(remote, key)
		},
		Banner: l.banner,
		Flight: l.startFlight,
		Auth: func(c *own.AuthContext) (own.AuthMethod, error) {
			l.refused(c)
			a, err := l.next(c.Allowed, c.Partial, c.Tried)
			if err != nil {
				return nil, err
			}
			return a.own(), nil
		},
	})
	if err != nil {
		return nil, nil, err
	}
	l.logConn(conn)
	t := ownTransport{conn}
	if trip := conn.RoundTrip(); trip > 0 {
		l.recordRoundTrip(trip, 1)
	}
	first, err := l.awaitSession(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return t, first, nil
}

// runXcrypto runs the login over x/crypto/ssh.
func (l *login) runXcrypto(r *route, hostKeys []string,
	check func(net.Addr, ssh.PublicKey) error) (transport, error) {
	config := &ssh.ClientConfig{
		Config: ssh.Config{
			Ciphers: l.s.ciphers, MACs: l.s.macs, KeyExchanges: l.s.kexes,
			RekeyThreshold: l.s.rekeyBytes,
		},
		User:              l.s.user,
		ClientVersion:     clientVersion,
		HostKeyAlgorithms: hostKeys,
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			return check(remote, key)
		},
		BannerCallback: l.banner,
		AuthCallback: func(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			a, err := l.next(c.AllowedMethods, c.PartialSuccessMethods, c.TriedMethods)
			if err != nil {
				return nil, err
			}
			return a.xcrypto(), nil
		},
	}
	c, chans, reqs, err := ssh.NewClientConn(r.conn, "", config)
	if err != nil {
		return nil, err
	}
	return xcryptoTransport{ssh.NewClient(c, chans, reqs)}, nil
}

// An attempt is one method to try, for either SSH stack. One of key, password and challenge is set.
type attempt struct {
	key       *credential
	password  func() (string, error)
	change    own.PasswordChange // for password
	challenge ssh.KeyboardInteractiveChallenge
}

func (a *attempt) own() own.AuthMethod {
	switch {
	case a.key != nil:
		return own.PublicKey(a.key)
	case a.password != nil:
		return own.Password(a.password, a.change)
	}
	return own.KeyboardInteractive(a.challenge)
}

func (a *attempt) xcrypto() ssh.AuthMethod {
	switch {
	case a.key != nil:
		return ssh.PublicKeys(a.key)
	case a.password != nil:
		return ssh.PasswordCallback(a.password)
	}
	return ssh.KeyboardInteractive(a.challenge)
}

// banner shows the server's message, unless an earlier login of the Dialer has shown it: a copy may
// open eight connections.
func (l *login) banner(text string) error {
	if !l.bannered {
		l.bannered = true
		l.resume()
	}
	if l.replay != nil {
		return nil
	}
	if f := l.d.config.Banner; f != nil && !l.s.quiet {
		f(l.s.alias, text)
	} else {
		l.d.log.Info("banner: "+printable([]byte(text)), "host", l.s.alias)
	}
	return nil
}

// explain finds out why the login failed: the transport's error often says only that the connection
// was closed.
func (l *login) explain(err error, sniff *sniffer) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if l.hostKeyErr != nil { // nothing may hide a changed key
		return l.hostKeyErr
	}
	if sniff != nil && !sniff.sawSSH() {
		text := sniff.text()
		if text != "" || l.watch.expired() == nil {
			return &NotSSHError{Text: text}
		}
	}
	if t := l.watch.expired(); t != nil {
		return t
	}
	if l.failure != nil {
		return l.failure
	}
	if flight, ok := errors.AsType[*own.FlightError](err); ok {
		err = flight.Err
	}
	if refused, ok := errors.AsType[*own.AuthError](err); ok && refused.Err != nil {
		err = refused.Err
	}
	if theirs, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		err = &own.NegotiationError{What: theirs.What, Ours: theirs.SupportedAlgorithms,
			Theirs: theirs.RequestedAlgorithms}
	}
	if negotiation, ok := errors.AsType[*own.NegotiationError](err); ok {
		return fmt.Errorf("no common %s: we offer %s and the server %s; the system's ssh "+
			"(dial.Config.SSH) may have one, if ssh_config allows it", negotiation.What,
			strings.Join(negotiation.Ours, ","), strings.Join(listed(negotiation.Theirs), ","))
	}
	text := strings.TrimPrefix(plain(err), "ssh: handshake failed: ")
	text = strings.TrimPrefix(text, "ssh: ")
	// "Too many authentication failures" arrives as a disconnect.
	if l.current.method != "" {
		return l.refusal(nil, errors.New(printable([]byte(text))))
	}
	return fmt.Errorf("the SSH handshake failed: %w", &describedError{text, errors.Unwrap(err)})
}

// plain returns an error's text without package net's addresses, which say nothing new.
func plain(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
		if sys, ok := errors.AsType[*os.SyscallError](err); ok {
			err = sys.Err
		}
	}
	return err.Error()
}

// next chooses the next method to try. The transport calls it after the refusal of "none" or the
// flight, and after each further refusal or partial success. partial lists the methods that
// succeeded, tried the methods that failed.
func (l *login) next(allowed, partial, tried []string) (*attempt, error) {
	if l.failure != nil {
		return nil, l.failure
	}
	if !l.anyRefused {
		l.anyRefused = true
		trips := 1
		if l.s.xcrypto {
			trips = 2 // the service request and "none"
		}
		l.recordRoundTrip(time.Since(l.keyed), trips)
		l.watch.pause() // the first login may wait for a person
		if l.failure = l.follow(); l.failure != nil {
			return nil, l.failure
		}
	}
	l.resume()
	if len(partial) > len(l.done) {
		l.done = append(l.done, l.current)
		l.again()
	}
	l.d.log.Debug("the server wants more", "host", l.s.alias, "takes",
		strings.Join(listed(allowed), ","))
	if l.replay != nil {
		return l.nextReplay(allowed, tried)
	}
	for _, method := range l.s.preferred {
		if !slices.Contains(allowed, method) {
			continue
		}
		switch method {
		case "publickey":
			if m := l.publicKey(); m != nil {
				return m, nil
			}
		case "keyboard-interactive":
			if l.s.kbd && l.kbdTries < l.s.prompts && (l.kbdTries == 0 || l.kbdAsked) &&
				l.d.asker.canAsk(l.s) && l.interactError == nil {
				l.kbdTries++
				return l.challenge(""), nil
			}
		case "password":
			if l.s.password && l.pwTries < l.s.prompts && l.d.asker.canAsk(l.s) &&
				l.interactError == nil {
				l.pwTries++
				return l.passwordMethod(), nil
			}
		}
	}
	l.failure = l.refusal(allowed, l.interactError)
	return nil, l.failure
}

// nextReplay offers only credentials that worked before: further connections must neither count as
// failed logins (sshd's MaxStartups and PerSourcePenalties) nor ask a person again.
func (l *login) nextReplay(allowed, tried []string) (*attempt, error) {
	if len(l.done) < len(l.replay) && !slices.Contains(tried, l.replay[len(l.done)].method) {
		switch r := l.replay[len(l.done)]; r.method {
		case "publickey":
			if m := l.publicKeyOf(r.key); m != nil {
				return m, nil
			}
		case "password":
			l.startMethod("password", r)
			return &attempt{password: func() (string, error) { return r.secret, nil },
				change: func(text string) (_, _ string, err error) {
					l.interactError = &own.PasswordExpiredError{Text: printable([]byte(text))}
					return "", "", l.interactError
				}}, nil
		case "keyboard-interactive":
			if !r.person {
				return l.challenge(r.secret), nil
			}
			if l.d.asker.canAsk(l.s) {
				return l.challenge(""), nil
			}
		}
	}
	l.failure = l.refusal(allowed, cmp.Or(l.interactError,
		errors.New("what worked for an earlier login failed this time")))
	return nil, l.failure
}

// again lets keys that were refused be offered once more, as ssh does after each step that
// succeeds: the server may have wanted that step first. Nobody is asked again for a passphrase.
func (l *login) again() {
	left := l.credentials
	l.credentials = slices.DeleteFunc(slices.Clone(l.all), func(c *credential) bool {
		if c.public == nil {
			return !slices.Contains(left, c)
		}
		return slices.ContainsFunc(l.done,
			func(s step) bool { return string(s.key) == string(c.public.Marshal()) })
	})
}

func (l *login) startMethod(method string, s step) {
	s.method = method
	l.current = s
	if !slices.Contains(l.tried, method) {
		l.tried = append(l.tried, method)
	}
	l.resume()
}

// publicKey offers one key at a time, so that a key that cannot sign does not spoil the others.
func (l *login) publicKey() *attempt {
	l.load()
	for len(l.credentials) > 0 {
		c := l.credentials[0]
		l.credentials = l.credentials[1:]
		if c.public == nil {
			l.watch.pause()
			err := l.ring.reveal(c)
			l.resume()
			if err != nil {
				l.ring.note("%v", err)
				continue
			}
		}
		return l.offer(c)
	}
	return nil
}

func (l *login) publicKeyOf(blob []byte) *attempt {
	l.load()
	for _, c := range l.credentials {
		// What worked has been revealed: nobody is asked for the passphrase of another key.
		if c.public == nil && (l.d.asker.kept(c.name) == nil || l.ring.reveal(c) != nil) {
			continue
		}
		if string(c.public.Marshal()) == string(blob) {
			return l.offer(c)
		}
	}
	return nil
}

// load finds the keys to offer, once.
func (l *login) load() {
	if l.loaded {
		return
	}
	l.loaded = true
	l.credentials = slices.DeleteFunc(l.ring.credentials(), func(c *credential) bool {
		return l.alone && !c.alone() || l.only != nil && !slices.ContainsFunc(l.only, c.same)
	})
	if l.flight.never { // as ssh does
		slices.SortStableFunc(l.credentials, byTurn)
	}
	l.all = l.credentials
}

func (l *login) offer(c *credential) *attempt {
	l.startMethod("publickey", step{key: c.public.Marshal(), person: c.person,
		offer: l.misSigns(c)})
	l.offered = append(l.offered, c)
	l.d.log.Debug("offering "+c.String(), "host", l.s.alias)
	sign := *c
	sign.sign = func(rand io.Reader, data []byte, algo string) (*ssh.Signature, error) {
		l.watch.pause() // a passphrase to type, a token to touch
		defer l.resume()
		sig, err := c.sign(rand, data, algo)
		if err != nil {
			l.ring.note("%v", err)
		} else if !c.person && len(l.done) == 0 {
			l.loginLikely()
		}
		return sig, err
	}
	return &attempt{key: &sign}
}

func (l *login) ask(p Prompt) (string, error) {
	l.watch.pause()
	defer l.resume()
	p.User, p.Host = l.s.user, l.s.alias
	answer, err := l.d.asker.ask(l.ctx, l.s, p)
	if err != nil {
		l.interactError = err
	}
	return answer, err
}

// tryAgain says why a question is repeated, in ssh's words.
const tryAgain = "Permission denied, please try again."

func (l *login) passwordMethod() *attempt {
	l.startMethod("password", step{})
	text := l.s.userHost() + "'s password: "
	if l.pwTries > 1 {
		text = joinLines(tryAgain, text)
	}
	return &attempt{change: l.changePassword(), password: func() (string, error) {
		answer, err := l.ask(Prompt{Kind: AskPassword, Text: text})
		if err == nil && l.isRefused(answer) {
			err = errSamePassword
			l.interactError = err
		}
		l.current.secret = answer
		return answer, err
	}}
}

// maxQuestions limits how many questions a server may ask in one login.
const maxQuestions = 64

// challenge answers keyboard-interactive. It treats a single hidden question for a password as a
// password, and remembers the answer for further connections. Anything else, such as a one-time
// code, needs a person each time. kept is the password if it is known.
func (l *login) challenge(kept string) *attempt {
	l.startMethod("keyboard-interactive", step{secret: kept})
	asked := 0
	return &attempt{challenge: func(name, instruction string, questions []string,
		echos []bool) ([]string, error) {
		l.kbdAsked = true
		// As ssh shows it: "your password expires tomorrow", or "a request was sent to your phone".
		if text := joinLines(name, instruction); len(questions) == 0 && text != "" {
			l.banner(text)
		}
		answers := make([]string, len(questions))
		for i, q := range questions {
			if asked++; asked > maxQuestions {
				return nil, errors.New("the server asks too many questions")
			}
			simple := asked == 1 && len(questions) == 1 && !echos[i] && forPassword(q)
			if simple && kept != "" {
				answers[i] = kept
				continue
			}
			if kept != "" {
				l.interactError = errors.New("the server asks for more than in an earlier login")
				return nil, l.interactError
			}
			// as in ssh: the question is the server's, and there may be several servers
			text := fmt.Sprintf("(%s) %s", l.s.userHost(), q)
			if i == 0 {
				text = joinLines(name, instruction, text)
			}
			if asked == 1 && l.kbdTries > 1 {
				text = joinLines(tryAgain, text)
			}
			answer, err := l.ask(Prompt{Kind: AskChallenge, Text: text, Echo: echos[i]})
			if err != nil {
				return nil, err
			}
			answers[i] = answer
			if simple {
				l.current.secret = answer
			} else {
				l.current.person, l.current.secret = true, ""
			}
		}
		return answers, nil
	}}
}

// forOnce finds the words of a question for a password that serves only once, as pam_oath's.
var forOnce = regexp.MustCompile(`(?i)\b(one[- ]time|otp|token|code)\b`)

// forPassword reports whether a question is for a password that will be right again.
func forPassword(question string) bool {
	return strings.Contains(strings.ToLower(question), "assword") &&
		!forOnce.MatchString(question)
}

func joinLines(lines ...string) string {
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.TrimSpace(s) == "" })
	return strings.Join(lines, "\n")
}

// listed makes a server's list of names fit for a message. RFC 4251, section 6, allows names of 64
// bytes.
func listed(names []string) (fit []string) {
	for _, n := range names[:min(len(names), 64)] {
		fit = append(fit, printable([]byte(n[:min(len(n), 64)])))
	}
	return fit
}

// refusal returns the error of a login that has nothing left to try.
func (l *login) refusal(allowed []string, err error) error {
	e := &AuthError{User: l.s.user, Tried: l.tried, Notes: l.ring.notes, Err: err,
		Keys: slices.Concat(l.before, l.keysOffered()), Allowed: listed(allowed)}
	for _, s := range l.done {
		e.Partial = append(e.Partial, s.method)
	}
	e.Notes = append(slices.Clone(e.Notes), l.advice(allowed, err)...)
	return e
}

// advice says what might help, where that does not follow from what was tried.
func (l *login) advice(allowed []string, err error) (advice []string) {
	switch {
	case l.replay != nil || l.alone: // the first login has said it, or says it
	case slices.Contains(allowed, "publickey") && !l.s.pubkey:
		advice = append(advice, "keys are not used, since the ssh configuration says PubkeyAuthentication no")
	case slices.Contains(allowed, "publickey") && len(l.all) == 0 && len(l.ring.notes) == 0:
		advice = append(advice, "no key was found: name its file (-i, IdentityFile), or add it to an agent (ssh-add)")
	case allowed == nil && l.current.method == "publickey" && len(l.credentials) > 0:
		advice = append(advice, "the server hung up before all keys were offered: name the right one (-i, IdentityFile), and set IdentitiesOnly=yes")
	}
	if err == nil && !l.d.asker.canAsk(l.s) &&
		(slices.Contains(allowed, "password") || slices.Contains(allowed, "keyboard-interactive")) {
		advice = append(advice, "there is nobody to ask for a password")
	}
	return advice
}

func (l *login) keysOffered() (keys []string) {
	for _, c := range l.offered {
		keys = append(keys, c.String())
	}
	return unique(keys)
}

// worked returns the steps of a login that succeeded.
func (l *login) worked() []step { return append(slices.Clone(l.done), l.current) }

// expectSuccess calls Config.LoginLikely if the first login is likely to succeed without a person:
// the host has proved its identity, and there is a key that can sign by itself. Further connections
// can then exchange keys in the meantime. They offer nothing before the first login has succeeded,
// so that no attempt fails needlessly.
func (l *login) expectSuccess() {
	// behind a jump host the round trip is not known yet
	if l.first == nil || l.roundTrip == 0 || l.s.preferred[0] != "publickey" {
		return
	}
	l.load()
	if len(l.credentials) > 0 && l.credentials[0].alone() {
		l.loginLikely()
	}
}

// alone reports whether a key signs without a person.
func (c *credential) alone() bool { return c.public != nil && !c.person && !c.locked }

// loginLikely calls Config.LoginLikely, once for each Dialer: the first login is almost complete.
func (l *login) loginLikely() {
	if l.d.config.LoginLikely == nil {
		return
	}
	l.d.mu.Lock()
	called := l.d.likelyCalled
	l.d.likelyCalled = true
	l.d.mu.Unlock()
	if !called {
		l.d.config.LoginLikely(l.d, l.roundTrip)
	}
}

// recordRoundTrip records that a number of round trips took d. The shortest time counts, since some
// servers are slow to answer.
func (l *login) recordRoundTrip(d time.Duration, trips int) {
	if d /= time.Duration(trips); l.roundTrip == 0 || d < l.roundTrip {
		l.roundTrip = d
	}
}
