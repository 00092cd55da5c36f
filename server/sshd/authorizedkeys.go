package sshd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// AuthorizedKeys are one user's keys, from a file in the format of OpenSSH's authorized_keys
// (sshd(8), AUTHORIZED_KEYS FILE FORMAT).
//
// The options from, expiry-time, cert-authority and principals are honoured. Options that only
// restrict features that are not served anyway are accepted: restrict, no-pty, permitopen and
// others. With OpenSSH a key with command= may run only that command; no commands are run here, so
// the key is refused, with a warning. As with OpenSSH, so is a line with an unknown option.
type AuthorizedKeys struct {
	keys     []authorizedKey
	Warnings []string // refused lines and why, with file and line number
}

// authorizedKey is a line of the file.
type authorizedKey struct {
	key        []byte // as on the wire
	from       addressList
	expires    time.Time
	authority  bool // signs certificates, and is not accepted itself
	principals []string
}

// Len returns the number of keys.
func (a *AuthorizedKeys) Len() int { return len(a.keys) }

// ReadAuthorizedKeys reads a file. A missing file is an error. It does not check who could change
// the file: see [StrictModes].
func ReadAuthorizedKeys(name string) (*AuthorizedKeys, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return ParseAuthorizedKeys(name, data), nil
}

// ParseAuthorizedKeys parses the contents of a file; name is for warnings. Invalid lines are
// skipped, so that a typo in one key does not lock everybody out.
func ParseAuthorizedKeys(name string, data []byte) *AuthorizedKeys {
	list := &AuthorizedKeys{}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, 1<<20)
	for number := 1; scanner.Scan(); number++ {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := parseAuthorizedKey(line)
		if err != nil {
			list.Warnings = append(list.Warnings, fmt.Sprintf("%s:%d: %v", name, number, err))
			continue
		}
		list.keys = append(list.keys, key)
	}
	if err := scanner.Err(); err != nil {
		list.Warnings = append(list.Warnings, fmt.Sprintf("%s: %v", name, err))
	}
	return list
}

func parseAuthorizedKey(line []byte) (k authorizedKey, err error) {
	key, _, options, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return k, errors.New("no key")
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return k, errors.New("a certificate instead of its authority's key")
	}
	k.key = key.Marshal()
	for _, option := range options {
		if err := k.option(option); err != nil {
			return k, err
		}
	}
	if len(k.principals) > 0 && !k.authority {
		return k, errors.New("principals without cert-authority")
	}
	return k, nil
}

// harmless are options about features that are not served at all.
var harmless = []string{
	"restrict", "no-pty", "pty", "no-port-forwarding", "port-forwarding", "no-agent-forwarding",
	"agent-forwarding",
	"no-x11-forwarding", "x11-forwarding", "no-user-rc", "user-rc", "permitopen", "permitlisten",
	"tunnel", "environment",
	"no-touch-required",
}

// errTwice refuses an option of which only one could have an effect.
var errTwice = errors.New("given more than once")

// option applies one option.
func (k *authorizedKey) option(option string) (err error) {
	name, value, _ := strings.Cut(option, "=")
	value = unquote(value)
	switch name = strings.ToLower(name); name {
	case "from":
		if k.from != nil {
			err = errTwice
			break
		}
		k.from, err = parseAddressList(value)
	case "expiry-time":
		var at time.Time
		if at, err = parseExpiry(value); k.expires.IsZero() || at.Before(k.expires) {
			k.expires = at // the earliest, as with OpenSSH
		}
	case "cert-authority":
		k.authority = true
	case "principals":
		if k.principals != nil {
			err = errTwice
		}
		k.principals = strings.Split(value, ",")
	case "command":
		err = errors.New("the key is refused: it is restricted to a command, and no commands are run here")
	case "verify-required":
		err = errors.New("the key is refused: verify-required is not supported")
	default:
		if !slices.Contains(harmless, name) {
			err = errors.New("unknown option")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// unquote removes the quotes around an option's value, within which a quote is escaped by a
// backslash.
func unquote(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	return strings.ReplaceAll(value[1:len(value)-1], `\"`, `"`)
}

// parseExpiry parses YYYYMMDD[Z] and YYYYMMDDHHMM[SS][Z].
func parseExpiry(value string) (time.Time, error) {
	location := time.Local
	if rest, ok := strings.CutSuffix(value, "Z"); ok {
		value, location = rest, time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(value) == len(layout) {
			return time.ParseInLocation(layout, value, location)
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a valid time", value)
}

var (
	errUnknownKey = errors.New("the key is not authorized")
	errWrongFrom  = errors.New("the key is not authorized from this address")
	errExpired    = errors.New("the key has expired")
)

// Check returns nil if key, or the authority of key if it is a certificate for user, is authorized
// to log in from address now, and otherwise the reason. Revocation is checked by a [Directory].
func (list *AuthorizedKeys) Check(user string, key ssh.PublicKey, address netip.Addr) error {
	if certificate, ok := key.(*ssh.Certificate); ok {
		if err := verifyCertificate(certificate); err != nil {
			return err
		}
	}
	return list.check(user, key, address, nil, time.Now())
}

// check works like Check, for a key or a certificate whose signature has been verified.
func (list *AuthorizedKeys) check(user string, key ssh.PublicKey, address netip.Addr,
	revoked *RevocationList, now time.Time) error {
	wanted := key
	certificate, isCertificate := key.(*ssh.Certificate)
	if isCertificate {
		wanted = certificate.SignatureKey
	}
	err, text := errUnknownKey, wanted.Marshal()
	for _, k := range list.keys {
		if k.authority != isCertificate || !bytes.Equal(k.key, text) {
			continue
		}
		if err = k.usable(address, now); err != nil {
			continue
		}
		if isCertificate {
			principals := k.principals
			if len(principals) == 0 {
				principals = []string{user}
			}
			err = checkCertificate(certificate, principals, address, revoked, now)
		} else if revoked.KeyRevoked(key) {
			err = errRevoked
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func (k *authorizedKey) usable(address netip.Addr, now time.Time) error {
	if k.from != nil && !k.from.allows(address) {
		return errWrongFrom
	}
	if !k.expires.IsZero() && now.After(k.expires) {
		return errExpired
	}
	return nil
}
