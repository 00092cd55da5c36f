// Package keyfile reads private keys from files: OpenSSH's own form (PROTOCOL.key), PuTTY's .ppk,
// PKCS #1, PKCS #8 and SEC 1 in PEM, encrypted or not. Files may come from others, so the cost of
// trying a passphrase is bounded.
package keyfile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ErrPassphrase means that a passphrase is wrong.
var ErrPassphrase = errors.New("the passphrase is wrong")

// A Key is a private key as stored in a file.
type Key struct {
	// Public is its public half, or nil if only the passphrase reveals it.
	Public ssh.PublicKey
	// Locked reports whether it needs a passphrase.
	Locked bool
	open   func(passphrase []byte) (*Private, error)
}

// A Private is a key that can sign. Signer and Key are set, or Token.
type Private struct {
	Signer ssh.AlgorithmSigner
	Key    any // the standard library's type
	Token  *Token
}

// Open returns the private key. An error is [ErrPassphrase] if another passphrase may open it. The
// passphrase is ignored if the key is not locked.
func (k *Key) Open(passphrase []byte) (*Private, error) {
	if k.Locked && len(passphrase) == 0 {
		return nil, ErrPassphrase
	}
	return k.open(passphrase)
}

// IsKey reports whether a text looks like a private key's file.
func IsKey(text []byte) bool {
	return bytes.Contains(text, []byte("-----BEGIN ")) || bytes.HasPrefix(text, []byte(puttyMagic))
}

// maxDER limits the size of a key in DER, since checking large numbers is slow. An RSA key with
// 16384 bits, OpenSSH's limit, takes 10 KB.
const maxDER = 16 << 10

// Parse reads a key file.
func Parse(text []byte) (*Key, error) {
	if bytes.HasPrefix(text, []byte(puttyMagic)) {
		return parsePuTTY(text)
	}
	block, rest := pem.Decode(text)
	// Curves' parameters, as openssl ecparam writes them, and certificates may come before the key.
	for next := block; next != nil; next, rest = pem.Decode(rest) {
		if strings.HasSuffix(next.Type, "PRIVATE KEY") {
			block = next
			break
		}
	}
	switch {
	case block == nil:
		return nil, errors.New("holds no private key")
	case len(block.Bytes) > maxDER:
		return nil, errors.New("too large for a private key")
	case block.Type == "OPENSSH PRIVATE KEY":
		return parseOpenSSH(block.Bytes)
	case block.Type == "ENCRYPTED PRIVATE KEY":
		return parsePKCS8(block.Bytes)
	//lint:ignore SA1019 old keys are encrypted like this
	case x509.IsEncryptedPEMBlock(block):
		return &Key{Locked: true, open: func(passphrase []byte) (*Private, error) {
			//lint:ignore SA1019 old keys are encrypted like this
			der, err := x509.DecryptPEMBlock(block, passphrase)
			if errors.Is(err, x509.IncorrectPasswordError) {
				return nil, ErrPassphrase
			}
			if err != nil {
				return nil, err
			}
			return parsePlain(block.Type, der)
		}}, nil
	}
	private, err := parseDER(block.Type, block.Bytes)
	if err != nil {
		return nil, err
	}
	return opened(private), nil
}

// opened returns a key that needs no passphrase.
func opened(p *Private) *Key {
	k := &Key{open: func([]byte) (*Private, error) { return p, nil }}
	if p.Token != nil {
		k.Public = p.Token.Public
	} else {
		k.Public = p.Signer.PublicKey()
	}
	return k
}

// parsePlain parses like parseDER, but data decrypted with a passphrase: one of 256 wrong ones
// leaves valid padding.
func parsePlain(kind string, plain []byte) (*Private, error) {
	var whole asn1.RawValue
	rest, err := asn1.Unmarshal(plain, &whole)
	if err != nil || len(rest) > 0 || whole.Tag != asn1.TagSequence {
		return nil, ErrPassphrase
	}
	return parseDER(kind, plain)
}

// parseDER parses a key of one of PEM's types.
func parseDER(kind string, der []byte) (*Private, error) {
	var key any
	var err error
	switch kind {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(der)
	case "EC PRIVATE KEY":
		key, err = parseEC(der)
	case "PRIVATE KEY":
		if key, err = x509.ParsePKCS8PrivateKey(der); err != nil {
			key, err = parseExplicit(der, err)
		}
	case "DSA PRIVATE KEY":
		return nil, errors.New("a DSA key, which SSH no longer uses")
	default:
		return nil, fmt.Errorf("holds a %.40q, which is not supported", kind)
	}
	if err != nil {
		return nil, err
	}
	return signing(key)
}

// signing returns the Private of a key of the standard library.
func signing(key any) (*Private, error) {
	if p, ok := key.(*ed25519.PrivateKey); ok {
		key = *p
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	return &Private{Signer: signer.(ssh.AlgorithmSigner), Key: key}, nil
}
