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

// Authorities are keys whose certificates let users in (OpenSSH's PROTOCOL.certkeys;
// sshd_config(5), TrustedUserCAKeys).
type Authorities struct {
	Keys    []ssh.PublicKey
	Revoked *RevocationList // may be nil
}

// Check reports whether certificate lets user log in from address now: it was signed by one of the
// authorities, for users, for this one by name, and now; it has not been revoked; and it has no
// critical options but source-address, which holds.
func (a *Authorities) Check(user string, certificate *ssh.Certificate, address netip.Addr) error {
	known := slices.ContainsFunc(a.Keys, func(key ssh.PublicKey) bool {
		return bytes.Equal(key.Marshal(), certificate.SignatureKey.Marshal())
	})
	if !known {
		return errors.New("the certificate's authority is unknown")
	}
	return checkCertificate(certificate, []string{user}, address, a.Revoked, time.Now())
}

// checkCertificate checks all of a certificate but who its authority is.
func checkCertificate(certificate *ssh.Certificate, principals []string, address netip.Addr,
	revoked *RevocationList, now time.Time) error {
	if certificate.CertType != ssh.UserCert {
		return errors.New("the certificate is not for users")
	}
	// OpenSSH's CASignatureAlgorithms: whoever can make SHA-1 collide can make certificates.
	if !slices.Contains(signatures, certificate.Signature.Format) {
		return fmt.Errorf("the certificate is signed with %q, which is too weak",
			certificate.Signature.Format)
	}
	// A certificate without names would be good for everybody; OpenSSH takes none either.
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
	// The checker sees to the signature and to the time.
	checker := ssh.CertChecker{
		SupportedCriticalOptions: []string{"source-address"},
		Clock:                    func() time.Time { return now },
	}
	return checker.CheckCert(certificate.ValidPrincipals[0], certificate)
}
