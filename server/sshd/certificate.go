package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Authorities are keys whose certificates let users in (OpenSSH PROTOCOL.certkeys; sshd_config(5),
// TrustedUserCAKeys).
type Authorities struct {
	Keys    []ssh.PublicKey
	Revoked *RevocationList // may be nil
}

// Check returns nil if certificate lets user log in from address now, and otherwise why not: it
// must be signed by one of the authorities, be a user certificate for this user by name, be valid
// now and not be revoked, and have no critical options other than a source-address that matches.
func (a *Authorities) Check(user string, certificate *ssh.Certificate, address netip.Addr) error {
	known := slices.ContainsFunc(a.Keys, func(key ssh.PublicKey) bool {
		return bytes.Equal(key.Marshal(), certificate.SignatureKey.Marshal())
	})
	if !known {
		return errors.New("the certificate's authority is unknown")
	}
	return checkCertificate(certificate, []string{user}, address, a.Revoked, time.Now())
}

// checkCertificate checks everything about a certificate except its authority.
func checkCertificate(certificate *ssh.Certificate, principals []string, address netip.Addr,
	revoked *RevocationList, now time.Time) error {
	if certificate.CertType != ssh.UserCert {
		return errors.New("not a user certificate")
	}
	// As with OpenSSH's CASignatureAlgorithms: anyone who can find SHA-1 collisions can forge
	// certificates.
	if !slices.Contains(signatures, certificate.Signature.Format) {
		return fmt.Errorf("the certificate is signed with %q, which is too weak",
			certificate.Signature.Format)
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
	// CertChecker checks the signature and the time.
	checker := ssh.CertChecker{
		SupportedCriticalOptions: []string{"source-address"},
		Clock:                    func() time.Time { return now },
	}
	return checker.CheckCert(certificate.ValidPrincipals[0], certificate)
}
