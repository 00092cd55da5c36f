package sshd

import (
	"errors"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
)

// UnacceptablePassword is the reason, as told to the user, why a new password is refused.
type UnacceptablePassword struct{ Reason string }

func (u *UnacceptablePassword) Error() string { return u.Reason }

// renewal is a login that completes once its password has been changed.
type renewal struct {
	access *Access
	by     proof
}

func (r *renewal) Error() string { return "Your password has expired and has to be changed." }

// mostRenewals limits the new passwords checked in one conversation. Each failed request to change
// one counts as a failed attempt anyway.
const mostRenewals = 3

// passwordChange returns the callback for requests to change a password: RFC 4252, section 8.
func (s *Server) passwordChange(config *Config) func(conn ssh.ConnMetadata, old,
	fresh []byte) (*ssh.Permissions, error) {
	return func(conn ssh.ConnMetadata, old, fresh []byte) (*ssh.Permissions, error) {
		result, err := s.guess(config, conn, proof{method: "password"}, func() (*Access, error) {
			return config.Password(conn, string(old))
		})
		next, ok := errors.AsType[*renewal](err)
		switch {
		case err == nil:
			return nil, errors.New("the password need not be changed")
		case !ok: // also if a code must come first
			return result, err
		}
		result, err = s.renewed(config, next, string(fresh))
		if unacceptable, ok := errors.AsType[*UnacceptablePassword](err); ok {
			return nil, &transport.PasswordChangeError{Prompt: unacceptable.Reason}
		}
		return result, err
	}
}

// renew asks for a new password.
func (s *Server) renew(config *Config, next *renewal,
	ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
	said := next.Error()
	for range mostRenewals {
		answers, err := ask("", said, []string{"New password: ", "Again: "}, []bool{false, false})
		if err == nil && len(answers) != 2 {
			err = errNoAccess
		}
		if err != nil {
			return nil, err
		}
		if answers[0] != answers[1] {
			said = "The two are not the same."
			continue
		}
		result, err := s.renewed(config, next, answers[0])
		unacceptable, ok := errors.AsType[*UnacceptablePassword](err)
		if !ok {
			return result, err
		}
		said = unacceptable.Reason
	}
	return nil, errors.New("no new password was acceptable")
}

// renewed changes the password, and completes the login.
func (s *Server) renewed(config *Config, next *renewal, fresh string) (*ssh.Permissions, error) {
	err := next.access.Renew(fresh)
	if errors.Is(err, ErrUndecided) {
		err = punished{err} // as in guess: the old one was right
	}
	if err != nil {
		return nil, err
	}
	complete := *next.access
	complete.Renew = nil
	return s.permissions(config, next.by, &complete, nil)
}
