package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
)

// Authorities are keys whose certificates let users in (OpenSSH PROTOCOL.certkeys; sshd_config(5),
// TrustedUserCAKeys).
type Authorities struct {
	Keys    []ssh.PublicKey
	Revoked *RevocationList // may be nil
}

// Check returns nil if certificate lets user log in from address now, and otherwise the reason: it
// must be signed by one of the authorities, be a user certificate for this user by name, be valid
// now and not revoked, and have no critical options other than a source-address that matches.
func (a *Authorities) Check(user string, certificate *ssh.Certificate, address netip.Addr) error {
	if err := verifyCertificate(certificate); err != nil {
		return err
	}
	return a.check(user, certificate, address)
}

// check works like Check, for a certificate whose signature has been verified.
func (a *Authorities) check(user string, certificate *ssh.Certificate, address netip.Addr) error {
	known := slices.ContainsFunc(a.Keys, func(key ssh.PublicKey) bool {
		return bytes.Equal(key.Marshal(), certificate.SignatureKey.Marshal())
	})
	if !known {
		return errUnknownAuthority
	}
	return checkCertificate(certificate, []string{user}, address, a.Revoked, time.Now())
}

var errUnknownAuthority = errors.New("the certificate's authority is unknown")

// verifyCertificate verifies a certificate's signature, regardless of its names and its authority:
// the time that takes must not reveal which users or authorities exist.
func verifyCertificate(certificate *ssh.Certificate) error {
	s := certificate.Signature
	// As with OpenSSH's CASignatureAlgorithms: anyone who can find SHA-1 collisions can forge
	// certificates.
	if !slices.Contains(transport.SignatureAlgos, s.Format) {
		return fmt.Errorf("the certificate is signed with %.64q, which is too weak", s.Format)
	}
	if len(s.Rest) > 0 && !strings.HasPrefix(s.Format, "sk-") {
		return errors.New("the certificate's signature has trailing data")
	}
	unsigned := *certificate
	unsigned.Signature = nil
	signed := unsigned.Marshal()
	signed = signed[:len(signed)-4] // without the length of the empty signature
	if certificate.SignatureKey.Verify(signed, s) != nil {
		return errors.New("the certificate's signature is invalid")
	}
	return nil
}

// checkCertificate checks everything about a certificate except its authority and its signature.
func checkCertificate(certificate *ssh.Certificate, principals []string, address netip.Addr,
	revoked *RevocationList, now time.Time) error {
	if certificate.CertType != ssh.UserCert {
		return errors.New("not a user certificate")
	}
	// A certificate without names would be valid for everybody; OpenSSH refuses those, too.
	match := func(name string) bool { return slices.Contains(certificate.ValidPrincipals, name) }
	if !slices.ContainsFunc(principals, match) {
		return fmt.Errorf("the certificate is for %q", certificate.ValidPrincipals)
	}
	for name, value := range certificate.CriticalOptions {
		if name != "source-address" {
			return fmt.Errorf("the certificate's option %q is not supported", name)
		}
		list, err := parseAddressList(value)
		if err != nil {
			return fmt.Errorf("the certificate's source-address: %w", err)
		}
		if !list.allows(address) {
			return errors.New("the certificate is not for this address")
		}
	}
	if revoked.CertificateRevoked(certificate) {
		return errRevoked
	}
	switch seconds := uint64(max(now.Unix(), 0)); {
	case seconds < certificate.ValidAfter:
		return errors.New("the certificate is not yet valid")
	case seconds >= certificate.ValidBefore: // ssh.CertTimeInfinity is the largest number
		return errors.New("the certificate has expired")
	}
	return nil
}
