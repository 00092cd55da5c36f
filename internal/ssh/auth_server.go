package ssh

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ErrNoAuth is passed to [ServerConfig].AuthLog for the method "none", which clients try first to
// learn which methods exist.
var ErrNoAuth = errors.New("ssh: no method of authentication was tried")

// A PasswordChangeError reports that a password is right but must be changed, or that a new one
// will not do. The client is asked for a new one: RFC 4252, section 8.
type PasswordChangeError struct{ Prompt string }

func (e *PasswordChangeError) Error() string {
	return "ssh: the password has to be changed: " + e.Prompt
}

// serverAttempts limits the requests of one login, whether they count as failures or not: each
// query for a key may be costly to answer.
const serverAttempts = 128

// Limits on the data held while a client waits, or a callback decides: a user name, and a password
// or the answers to questions. Some services take long tokens as passwords.
const (
	maxUser   = 1 << 10
	maxMethod = 64 // RFC 4251, section 6
	maxSecret = 8 << 10
	maxError  = 512
)

// serverLogin is the server's side of RFC 4252.
type serverLogin struct {
	*transport
	conn      *Conn
	config    *ServerConfig
	callbacks xssh.ServerAuthCallbacks
	failures  int
	nones     int
	partial   bool // some method has already succeeded
	errs      []error
	pending   []byte // a request that came instead of answers
}

// run lets the client log in.
func (l *serverLogin) run() (*xssh.Permissions, error) {
	p, err := l.read()
	if err != nil {
		return nil, err
	}
	if err := l.service(p); err != nil {
		return nil, err
	}
	first := true
	for attempt := 0; ; attempt++ {
		if attempt == serverAttempts {
			return nil, l.disconnect(reasonProtocolError, "too many authentication attempts")
		}
		p := l.pending
		if l.pending = nil; p == nil {
			// A client that waits for each answer reveals the round trip: its first request,
			// usually "none", takes it no time. A client that sends everything in one flight
			// reveals nothing.
			waits, began := !l.in.ready(), time.Now()
			if p, err = l.read(); err != nil {
				return nil, l.failed(err)
			}
			if waits {
				l.recordRoundTrip(time.Since(began))
			}
		}
		if p[0] > msgUserAuthRequest+29 {
			// The client sent its first channel along with a login that was refused. As with
			// OpenSSH, it must ask again.
			if err := l.notImplemented(); err != nil {
				return nil, err
			}
			continue
		}
		if p[0] == msgServiceRequest {
			// Paramiko asks for the service before each attempt, and OpenSSH's server lets it.
			if err := l.service(p); err != nil {
				return nil, err
			}
			continue
		}
		var a authRequest
		if err := a.parse(p); err != nil {
			return nil, err
		}
		perm, done, err := l.attempt(&a, first)
		first = false
		if err != nil {
			return nil, err
		}
		if done {
			return perm, l.send([]byte{msgUserAuthSuccess})
		}
	}
}

// service grants the only service available before a login: RFC 4253, section 10.
func (l *serverLogin) service(p []byte) error {
	r := body(p, msgServiceRequest)
	name := r.String()
	if err := r.parsed(); err != nil {
		return err
	}
	if name != serviceUserAuth {
		return l.disconnect(reasonServiceNotAvailable, "no such service")
	}
	return l.send(appendString([]byte{msgServiceAccept}, serviceUserAuth))
}

// notImplemented answers UNIMPLEMENTED to the last packet.
func (l *serverLogin) notImplemented() error {
	return l.send(appendUint32([]byte{msgUnimplemented}, l.in.seqOfLast()))
}

// disconnect ends the connection. Why is what counts, not whether the client could be told.
func (l *serverLogin) disconnect(reason uint32, text string) error {
	l.send(disconnectMessage(reason, text))
	return l.failed(errors.New(text))
}

// failed says that the client did not log in: the results of its attempts, each once and without
// "none", which clients try first to learn the methods, and how it ended. Logs cut long texts.
func (l *serverLogin) failed(end error) error {
	var texts []string
	for _, err := range l.errs {
		if text := err.Error(); !slices.Contains(texts, text) && !errors.Is(err, ErrNoAuth) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		texts = append(texts, "no key or password was tried")
	}
	return fmt.Errorf("ssh: no login: [%s]: %w", strings.Join(texts, ", "), end)
}

// attempt handles one request; done reports whether the client is logged in. An error ends the
// connection.
func (l *serverLogin) attempt(a *authRequest, first bool) (*xssh.Permissions, bool, error) {
	if a.service != serviceConnection {
		return nil, false, l.disconnect(reasonServiceNotAvailable, "no such service")
	}
	if l.partial && a.user != l.conn.user {
		return nil, false, &ProtocolError{"the client changed the user in the middle of a login"}
	}
	if len(a.user) > maxUser {
		return nil, false, l.disconnect(reasonProtocolError, "the user name is too long")
	}
	if len(a.method) > maxMethod {
		return nil, false, l.disconnect(reasonProtocolError, "the method's name is too long")
	}
	l.conn.setUser(a.user)
	if first && l.config.Banner != nil {
		if err := l.banner(l.config.Banner(l.conn)); err != nil {
			return nil, false, err
		}
	}
	perm, authErr, err := l.check(a)
	if err != nil {
		return nil, false, err
	}
	if errors.Is(authErr, errKeyAcceptable) {
		return nil, false, nil
	}
	partial, isPartial := errors.AsType[*xssh.PartialSuccessError](authErr)
	if authErr == nil || isPartial {
		if err := checkSource(l.conn.RemoteAddr(), perm); err != nil {
			authErr, isPartial = err, false
		}
	}
	if l.config.AuthLog != nil {
		l.config.AuthLog(l.conn, a.method, authErr)
	}
	if authErr == nil {
		return perm, true, nil
	}
	l.errs = append(l.errs, authErr)
	abandoned := l.pending != nil
	if banner, ok := errors.AsType[*xssh.BannerError](authErr); ok {
		if err := l.banner(banner.Message); err != nil {
			return nil, false, err
		}
	}
	if isPartial {
		l.partial, l.callbacks = true, partial.Next
	} else if l.counts(a.method) {
		l.failures++
		if most := l.config.MaxAuthTries; most > 0 && l.failures >= most {
			return nil, false, l.disconnect(reasonProtocolError, "too many authentication failures")
		}
	}
	if abandoned { // RFC 4252, section 5.1: only the new request is answered
		return nil, false, nil
	}
	if change, ok := errors.AsType[*PasswordChangeError](authErr); ok && a.method == "password" {
		request := appendString([]byte{msgUserAuthPasswordChange}, change.Prompt)
		return nil, false, l.send(appendString(request, ""))
	}
	methods := l.methods()
	if len(methods) == 0 {
		return nil, false, l.disconnect(reasonNoMoreAuthMethods, "no way to log in")
	}
	return nil, false, l.send((&authFailure{methods, isPartial}).append(nil))
}

// counts reports whether a failure counts: the first "none" does not, since clients begin with it.
func (l *serverLogin) counts(method string) bool {
	if method == "none" {
		l.nones++
		return l.nones > 1
	}
	return true
}

func (l *serverLogin) methods() (methods []string) {
	if l.callbacks.PublicKeyCallback != nil {
		methods = append(methods, "publickey")
	}
	if l.callbacks.PasswordCallback != nil {
		methods = append(methods, "password")
	}
	if l.callbacks.KeyboardInteractiveCallback != nil {
		methods = append(methods, "keyboard-interactive")
	}
	return methods
}

func (l *serverLogin) banner(text string) error {
	if text == "" {
		return nil
	}
	return l.send(appendString(appendString([]byte{msgUserAuthBanner}, text), ""))
}

// errKeyAcceptable is the result of a query, which does not count as an attempt.
var errKeyAcceptable = errors.New("ssh: the key would be accepted")

// errLongSecret is the result of an attempt with more than maxSecret bytes.
var errLongSecret = errors.New("ssh: the password is too long")

// errAbandoned reports that a client sent another request instead of an answer.
var errAbandoned = errors.New("ssh: the client did not answer")

// check asks the callbacks. authErr is the attempt's result.
func (l *serverLogin) check(a *authRequest) (perm *xssh.Permissions, authErr, err error) {
	switch a.method {
	case "none":
		if l.config.NoAuth != nil && !l.partial {
			perm, authErr = l.config.NoAuth(l.conn)
			return perm, authErr, nil
		}
		return nil, ErrNoAuth, nil
	case "password":
		if l.callbacks.PasswordCallback == nil {
			break
		}
		r := fields(a.rest, msgUserAuthRequest)
		change := r.Bool()
		password := r.Bytes()
		var fresh []byte
		if change {
			fresh = r.Bytes()
		}
		if err := r.parsed(); err != nil {
			return nil, nil, err
		}
		if len(password)+len(fresh) > maxSecret {
			return nil, errLongSecret, nil
		}
		if change && l.config.ChangePassword == nil {
			return nil, errors.New("ssh: passwords cannot be changed here"), nil
		}
		if change {
			perm, authErr = l.config.ChangePassword(l.conn, slices.Clone(password),
				slices.Clone(fresh))
			return perm, authErr, nil
		}
		perm, authErr = l.callbacks.PasswordCallback(l.conn, slices.Clone(password))
		return perm, authErr, nil
	case "keyboard-interactive":
		if l.callbacks.KeyboardInteractiveCallback == nil {
			break
		}
		var broken error
		perm, authErr = l.callbacks.KeyboardInteractiveCallback(l.conn,
			func(name, instruction string, questions []string, echos []bool) ([]string, error) {
				if l.pending != nil {
					return nil, errAbandoned
				}
				answers, err := l.ask(&infoRequest{name, instruction, questions, echos})
				if _, ok := errors.AsType[*ProtocolError](err); ok || l.in.err != nil {
					broken = err
				}
				return answers, err
			})
		if l.pending != nil && succeeds(authErr) {
			authErr = errAbandoned // regardless of the callback's result
		}
		return perm, authErr, broken
	case "publickey":
		if l.callbacks.PublicKeyCallback == nil {
			break
		}
		return l.checkKey(a)
	}
	return nil, fmt.Errorf("ssh: the method %.64q is not offered", a.method), nil
}

// ask asks the client questions: RFC 4256, section 3.2.
func (l *serverLogin) ask(q *infoRequest) ([]string, error) {
	if len(q.questions) != len(q.echos) || len(q.questions) > maxQuestions {
		return nil, errors.New("ssh: too many questions, or the wrong number of echos")
	}
	if err := l.send(q.append(nil)); err != nil {
		return nil, err
	}
	p, err := l.read()
	if err != nil {
		return nil, err
	}
	if p[0] == msgUserAuthRequest || p[0] == msgServiceRequest {
		l.pending = slices.Clone(p)
		return nil, errAbandoned
	}
	if len(p) > maxSecret {
		return nil, errLongSecret
	}
	answers, err := parseInfoResponse(p)
	if err != nil {
		return nil, err
	}
	if len(answers) != len(q.questions) {
		return nil, &ProtocolError{"the wrong number of answers"}
	}
	return answers, nil
}

func (l *serverLogin) checkKey(a *authRequest) (perm *xssh.Permissions, authErr, err error) {
	var k keyRequest
	if err := k.parse(a.rest); err != nil {
		return nil, nil, err
	}
	if !slices.Contains(SignatureAlgos, BaseAlgo(k.algo)) {
		return nil, fmt.Errorf("ssh: the algorithm %.64q is not accepted", k.algo), nil
	}
	// A key refers to the bytes from which it was parsed, and a callback may keep it.
	key, err := xssh.ParsePublicKey(slices.Clone(k.key))
	if err != nil {
		return nil, errors.New("ssh: invalid public key"), nil
	}
	if key.Type() != KeyTypeOf(k.algo) {
		return nil, fmt.Errorf("ssh: a key of type %.64q for the algorithm %s", key.Type(), k.algo),
			nil
	}
	// Also if the client has asked about the key before: it may have been revoked since.
	perm, decided := l.callbacks.PublicKeyCallback(l.conn, key)
	if !succeeds(decided) {
		return nil, shorten(decided), nil
	}
	if err := checkSource(l.conn.RemoteAddr(), perm); err != nil {
		return nil, err, nil
	}
	if !k.signed {
		ok := appendString(appendString([]byte{msgUserAuthPubKeyOK}, k.algo), k.key)
		return nil, errKeyAcceptable, l.send(ok)
	}
	if err := verify(key, k.algo, a.signedData(l.session, k), k.signature); err != nil {
		return nil, err, nil
	}
	return perm, decided, nil
}

// succeeds reports whether a callback's result is a success, if only a partial one.
func succeeds(err error) bool {
	_, partial := errors.AsType[*xssh.PartialSuccessError](err)
	return err == nil || partial
}

// shorten returns err, or a part of its text if that is long: errors are held until the login ends,
// and may quote the client's certificate.
func shorten(err error) error {
	if _, banner := errors.AsType[*xssh.BannerError](err); banner || succeeds(err) {
		return err
	}
	if text := err.Error(); len(text) > maxError {
		return errors.New(string(cut([]byte(text), maxError)))
	}
	return err
}

// checkSource applies the one critical option that the transport handles: source-address of a
// certificate or authorized_keys line.
func checkSource(remote net.Addr, perm *xssh.Permissions) error {
	if perm == nil {
		return nil
	}
	list, ok := perm.CriticalOptions["source-address"]
	if !ok {
		return nil
	}
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return errors.New("ssh: the key is limited to some addresses, and the client has none")
	}
	for one := range strings.SplitSeq(list, ",") {
		if ip := net.ParseIP(one); ip != nil && ip.Equal(tcp.IP) {
			return nil
		}
		if _, network, err := net.ParseCIDR(one); err == nil && network.Contains(tcp.IP) {
			return nil
		}
	}
	return errors.New("ssh: the key may not be used from this address")
}
