package keyfile

import (
	"errors"

	"golang.org/x/crypto/ssh"
)

// A Token is a key on a FIDO2 token (PROTOCOL.u2f): the file has a handle for it.
type Token struct {
	Public ssh.PublicKey
	// Serialized is the key in the form for ssh-sk-helper.
	Serialized []byte
	// Touch reports whether each signature needs a touch.
	Touch bool
}

// needsTouch is a flag of PROTOCOL.u2f.
const needsTouch = 0x01

// parseToken parses the private section of a key on a token, without its type: the public key, and
// the fields that the token needs.
func parseToken(kind string, section []byte) (*Private, error) {
	invalid := errors.New("not a valid key on a token")
	var curve []string
	rest := section
	if kind == ssh.KeyAlgoSKECDSA256 {
		var c struct {
			Name string
			Rest []byte `ssh:"rest"`
		}
		if ssh.Unmarshal(section, &c) != nil {
			return nil, invalid
		}
		curve, rest = []string{c.Name}, c.Rest
	} else if kind != ssh.KeyAlgoSKED25519 {
		return nil, errors.New("type is not supported")
	}
	var t struct {
		Key         []byte
		Application string
		Flags       byte
		Handle      []byte
		Reserved    []byte
		After       []byte `ssh:"rest"` // the comment, and padding
	}
	if ssh.Unmarshal(rest, &t) != nil {
		return nil, invalid
	}
	blob := appendString(nil, kind)
	for _, name := range curve {
		blob = appendString(blob, name)
	}
	public, err := ssh.ParsePublicKey(appendString(appendString(blob, string(t.Key)),
		t.Application))
	if err != nil {
		return nil, invalid
	}
	return &Private{Token: &Token{
		Public: public, Touch: t.Flags&needsTouch != 0,
		Serialized: append(appendString(nil, kind), section[:len(section)-len(t.After)]...),
	}}, nil
}

// appendString appends a string of SSH: RFC 4251, section 5.
func appendString(p []byte, s string) []byte {
	return append(p, ssh.Marshal(struct{ S string }{s})...)
}
