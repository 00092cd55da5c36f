package store

import (
	"context"
	"errors"
	"time"
)

// The limit of a user's wrong codes, from all addresses and on all nodes together: an attacker who
// knows the password and has many addresses makes 10 guesses at once, and then 6 an hour.
const (
	mostWrongCodes  = 10
	wrongCodeForget = 10 * time.Minute
)

var (
	// ErrNoSecret is the error for a user without a secret for codes.
	ErrNoSecret = errors.New("the store has no secret of this user: run usftpd totp new")

	errSecretExists = errors.New("there is a secret already; --replace makes it useless")
	errCodeWrong    = errors.New("the code is wrong")
	errCodeUsed     = errors.New("the code has been used already")
	errWrongCodes   = errors.New("too many codes of this user were wrong; only recovery codes " +
		"are accepted for now")
)

// PutSecret stores the secret of a user's codes, and the hashes of recovery codes; replace allows
// it to replace existing ones.
func (s *Store) PutSecret(ctx context.Context, name, secret string, recovery []string,
	replace bool) error {
	return plainly(s.do(ctx, func(t tx) error {
		if replace {
			if _, err := removeSecret(t, name); err != nil {
				return err
			}
		}
		rows, err := t.exec(`INSERT INTO totp (name, secret, last, wrong, seen)
			VALUES ($1, $2, 0, 0, 0) ON CONFLICT (name) DO NOTHING`, name, secret)
		if err == nil && rows == 0 {
			err = refusal{errSecretExists}
		}
		for _, hash := range recovery {
			if err == nil {
				err = t.run(`INSERT INTO recovery (name, hash) VALUES ($1, $2)`, name, hash)
			}
		}
		return err
	}))
}

// RemoveSecret removes a user's secret and recovery codes.
func (s *Store) RemoveSecret(ctx context.Context, name string) error {
	return plainly(s.do(ctx, func(t tx) error {
		rows, err := removeSecret(t, name)
		if err == nil && rows == 0 {
			err = refusal{errors.New("the store has no secret of this user")}
		}
		return err
	}))
}

func removeSecret(t tx, name string) (rows int64, err error) {
	if err := t.run(`DELETE FROM recovery WHERE name = $1`, name); err != nil {
		return 0, err
	}
	return t.exec(`DELETE FROM totp WHERE name = $1`, name)
}

// Secrets returns the users who have a secret, with the number of their recovery codes.
func (s *Store) Secrets(ctx context.Context) (names []string, recovery []int, err error) {
	err = s.do(ctx, func(t tx) error {
		names, recovery = nil, nil
		var name string
		var n int
		return t.each(`SELECT name, (SELECT count(*) FROM recovery WHERE recovery.name = totp.name)
			FROM totp ORDER BY name`, nil, []any{&name, &n}, func() {
			names, recovery = append(names, name), append(recovery, n)
		})
	})
	return names, recovery, err
}

// UseCode accepts a user's code once, on all nodes together: match returns the number of the code,
// which must be greater than the last code's. hash is the hash of a recovery code. While the store
// does not answer no code is accepted, since it may have been used elsewhere.
func (s *Store) UseCode(ctx context.Context, name, hash string,
	match func(secret string) (number int64, ok bool)) error {
	var wrong error // which must be counted, so the transaction commits
	err := s.do(ctx, func(t tx) error {
		wrong = nil
		if rows, err := t.exec(`DELETE FROM recovery WHERE name = $1 AND hash = $2`, name,
			hash); err != nil || rows > 0 {
			return err
		}
		// The row is locked before it is read, so that codes tried at once are counted.
		rows, err := t.exec(`UPDATE totp SET seen = @now, wrong = CASE
			WHEN wrong > abs(@now - seen) / CAST($2 AS DOUBLE PRECISION)
			THEN wrong - abs(@now - seen) / CAST($2 AS DOUBLE PRECISION) ELSE 0 END
			WHERE name = $1`, name, float64(wrongCodeForget.Milliseconds()))
		if err == nil && rows == 0 {
			err = refusal{ErrNoSecret}
		}
		if err != nil {
			return err
		}
		var secret string
		var last int64
		var failures float64
		if _, err := t.one(`SELECT secret, last, wrong FROM totp WHERE name = $1`, []any{name},
			&secret, &last, &failures); err != nil {
			return err
		}
		number, ok := match(secret)
		switch {
		case failures > mostWrongCodes-0.5:
			wrong = errWrongCodes
			return nil
		case !ok:
			wrong = errCodeWrong
			return t.run(`UPDATE totp SET wrong = wrong + 1 WHERE name = $1`, name)
		case number <= last:
			wrong = errCodeUsed
			return nil
		}
		return t.run(`UPDATE totp SET last = $2 WHERE name = $1`, name, number)
	})
	return errors.Join(plainly(err), wrong)
}
