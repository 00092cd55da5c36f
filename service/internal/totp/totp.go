// Package totp has the codes of second factors: codes that an authenticator shows (RFC 6238), and
// recovery codes for when it is lost.
package totp

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"
)

const (
	// step is how long a code is shown, and skew how many steps a clock may be off, both as in RFC
	// 6238, section 5.2.
	step = 30 * time.Second
	skew = 1

	recoveryCodes = 10
	recoveryBytes = 10 // 80 bits, which nobody guesses, so that a plain hash is enough
)

// New makes a secret, and the URI that gives it to an authenticator.
func New(issuer, user string) (secret, uri string, err error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: user})
	if err != nil {
		return "", "", err
	}
	// The library leaves an & in the issuer as it is.
	label := url.PathEscape(issuer) + ":" + url.PathEscape(user)
	query := url.Values{"secret": {key.Secret()}, "issuer": {issuer}}.Encode()
	// Authenticators take a plus sign literally.
	return key.Secret(), "otpauth://totp/" + label + "?" + strings.ReplaceAll(query, "+", "%20"),
		nil
}

// Match returns the number of the time step that the code belongs to, if that is the current step
// or a neighbour. It must not be used again (RFC 6238, section 5.2).
func Match(secret, code string, now time.Time) (number int64, ok bool) {
	code = strings.ReplaceAll(strings.TrimSpace(code), " ", "") // apps show two groups
	at := now.Unix() / int64(step/time.Second)
	for n := at - skew; n <= at+skew; n++ {
		right, err := totp.GenerateCodeCustom(secret, time.Unix(n*int64(step/time.Second), 0),
			totp.ValidateOpts{Period: uint(step / time.Second), Digits: otp.DigitsSix})
		if err == nil && subtle.ConstantTimeCompare([]byte(right), []byte(code)) == 1 {
			number, ok = n, true
		}
	}
	return number, ok
}

// Recovery makes recovery codes, in groups of four characters.
func Recovery() (codes []string) {
	for range recoveryCodes {
		random := make([]byte, recoveryBytes)
		rand.Read(random) // never fails
		text := base32.StdEncoding.EncodeToString(random)
		codes = append(codes, strings.Join([]string{text[:4], text[4:8], text[8:12], text[12:]},
			"-"))
	}
	return codes
}

// Hash returns the stored form of a user's recovery code, however the code is written.
func Hash(user, code string) string {
	plain := strings.NewReplacer("-", "", " ", "").Replace(strings.ToUpper(code))
	sum := sha256.Sum256([]byte(user + "\x00" + plain))
	return hex.EncodeToString(sum[:])
}
