package sshd

import (
	"errors"
	"strings"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
)

type (
	passwordCallback    = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error)
	interactiveCallback = func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (*ssh.Permissions,
		error)
)

// passwords returns the callbacks for passwords.
func (s *Server) passwords(config *Config) (passwordCallback, interactiveCallback) {
	check := func(conn ssh.ConnMetadata, method, password string) (*ssh.Permissions, error) {
		return s.guess(config, conn, proof{method: method}, func() (*Access, error) {
			return config.Password(conn, password)
		})
	}
	return func(conn ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			result, err := check(conn, "password", string(password))
			if next, ok := errors.AsType[*renewal](err); ok {
				return nil, &transport.PasswordChangeError{Prompt: next.Error()}
			}
			return result, err
		}, func(conn ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions,
			error) {
			password, err := question(ask, "Password: ")
			if err != nil {
				return nil, err
			}
			result, err := check(conn, "keyboard-interactive", password)
			// Further questions follow in one conversation, as with PAM: not all clients begin
			// another after a partial success.
			if more, ok := errors.AsType[*ssh.PartialSuccessError](err); ok {
				return more.Next.KeyboardInteractiveCallback(conn, ask)
			}
			if next, ok := errors.AsType[*renewal](err); ok {
				return s.renew(config, next, ask)
			}
			return result, err
		}
}

// question asks for one secret.
func question(ask ssh.KeyboardInteractiveChallenge, text string) (string, error) {
	answers, err := ask("", "", []string{text}, []bool{false})
	if err == nil && len(answers) != 1 {
		err = errNoAccess
	}
	if err != nil {
		return "", err
	}
	return answers[0], nil
}

// guess decides about a secret that may have been guessed, and counts wrong ones.
func (s *Server) guess(config *Config, conn ssh.ConnMetadata, by proof,
	decide func() (*Access, error)) (*ssh.Permissions, error) {
	who := by.held(conn.User())
	if s.refuses(config, conn.RemoteAddr(), who) {
		return nil, punished{errUserBanned}
	}
	access, err := decide()
	result, err := s.permissions(config, by, access, err)
	switch {
	case errors.Is(err, ErrUndecided):
		// Nobody must be banned for an outage, during which guessing reveals nothing.
		s.delay(s.blame(config, conn.RemoteAddr(), "", noLogin))
		err = punished{err}
	case !succeeded(err):
		s.delay(s.blame(config, conn.RemoteAddr(), who, wrongLogin))
		err = punished{err}
	}
	return result, err
}

// afterKey ends the name against which wrong codes after a right key are counted.
const afterKey = ":code"

// held returns the name against which a wrong secret is counted. Codes after a key count apart:
// others guessing passwords behind the same address must not shut out the key's owner.
func (p proof) held(user string) string {
	if strings.HasPrefix(p.method, "publickey,") {
		return user + afterKey
	}
	return heldAgainst(user)
}

// heldAgainst returns the name against which any other failure is counted, or "" for a name
// reserved for codes after a key: clients choose their names.
func heldAgainst(user string) string {
	if strings.HasSuffix(user, afterKey) {
		return ""
	}
	return user
}

// succeeded reports whether an attempt was right, even if more is needed.
func succeeded(err error) bool {
	_, asked := errors.AsType[*transport.PasswordChangeError](err)
	_, partial := errors.AsType[*ssh.PartialSuccessError](err)
	_, renews := errors.AsType[*renewal](err)
	return err == nil || partial || renews || asked
}

// permissions turns a decision into the result of a callback. If a code is needed as well, the
// success is partial (RFC 4252, section 5.1), and only the code may follow.
func (s *Server) permissions(config *Config, by proof, access *Access,
	err error) (*ssh.Permissions, error) {
	switch {
	case err != nil:
		return nil, err
	case access == nil || access.FS == nil && access.Open == nil:
		return nil, errNoAccess
	case access.Second != nil:
		return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
			KeyboardInteractiveCallback: s.second(config, by, access)}}
	case access.Renew != nil:
		return nil, &renewal{access, by}
	}
	return &ssh.Permissions{ExtraData: map[any]any{accessKey{}: access, provedKey{}: by}}, nil
}

// second asks for the code of a second factor.
func (s *Server) second(config *Config, by proof, access *Access) interactiveCallback {
	by.method += ",keyboard-interactive"
	return func(conn ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions,
		error) {
		code, err := question(ask, "Verification code: ")
		if err != nil {
			return nil, err
		}
		result, err := s.guess(config, conn, by, func() (*Access, error) {
			complete := *access
			complete.Second = nil
			return &complete, access.Second(conn, code)
		})
		// Only now: a thief of an old password must not lock its owner out.
		if next, ok := errors.AsType[*renewal](err); ok {
			return s.renew(config, next, ask)
		}
		return result, err
	}
}
