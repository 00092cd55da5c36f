package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

// passwordRules are the rules for new passwords of the store, and the age that they may reach.
type passwordRules struct {
	least  int           // characters
	maxAge time.Duration // 0 is forever
}

// usualLeast is the least length of a password that a person makes up (NIST SP 800-63B: at least 8,
// or 15 without a second factor; there are limits on guesses here).
const usualLeast = 12

func (f *configFile) passwords(file *serveFile) error {
	rules := passwordRules{least: int(file.Passwords.MinLength),
		maxAge: file.Passwords.MaxAge.Duration}
	switch {
	case rules.least == 0:
		rules.least = usualLeast
	case rules.least > maxPassword/utf8.UTFMax:
		return f.wrong("", "passwords.min_length",
			fmt.Errorf("at most %d characters can be asked for", maxPassword/utf8.UTFMax))
	}
	if rules.maxAge > 0 && rules.maxAge < time.Hour {
		return f.wrong("", "passwords.max_age", errors.New("at least an hour"))
	}
	f.made.passwords = rules
	return nil
}

// check returns nil if a password may follow another.
func (r *passwordRules) check(old, fresh string) error {
	switch {
	case utf8.RuneCountInString(fresh) < r.least:
		return &sshd.UnacceptablePassword{Reason: fmt.Sprintf(
			"The new password must have at least %d characters.", r.least)}
	case len(fresh) > maxPassword:
		return &sshd.UnacceptablePassword{Reason: fmt.Sprintf(
			"The new password is longer than %d bytes.", maxPassword)}
	case fresh == old:
		return &sshd.UnacceptablePassword{Reason: "The new password is the old one."}
	}
	return nil
}

// renewal returns a function that returns nil, or, if the user has to change the password, a
// function that does so.
func (s *service) renewal(u store.User,
	rules passwordRules) func(old string) func(fresh string) error {
	return func(old string) func(fresh string) error {
		if !u.PasswordSet.IsZero() && (rules.maxAge == 0 ||
			time.Since(u.PasswordSet) <= rules.maxAge) {
			return nil
		}
		return func(fresh string) error {
			if err := rules.check(old, fresh); err != nil {
				return err
			}
			hash, err := s.hash(fresh)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(context.Background(), accountPatience)
			defer cancel()
			if err = s.store.ChangePassword(ctx, u.Name, u.Password, hash); err == nil {
				s.Log.Info("password changed", "user", u.Name)
			}
			return undecided(err)
		}
	}
}

// atOnceHashed is how many new passwords are hashed at once, each in 64 MiB: a user who has to
// change the password may answer over many connections at the same moment. hashPatience is how long
// each waits for that.
const (
	atOnceHashed = 2
	hashPatience = 20 * time.Second
)

// hash hashes a new password when it is its turn.
func (s *service) hash(password string) (string, error) {
	patience := time.NewTimer(hashPatience)
	defer patience.Stop()
	select {
	case s.hashing <- struct{}{}:
		defer func() { <-s.hashing }()
		return sshd.HashPassword(password), nil
	case <-patience.C:
		return "", fmt.Errorf("%w: too many passwords are being changed", sshd.ErrUndecided)
	}
}
