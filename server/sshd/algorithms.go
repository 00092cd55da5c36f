package sshd

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// What is offered without configuration is what sshd of OpenSSH 10 offers (its myproposal.h), as
// far as x/crypto/ssh implements it: without the Diffie-Hellman groups over integers, without
// signatures over SHA-1, without DSA. Everything that is weaker has to be asked for by name; see
// Config.LegacyAlgorithms.
var (
	keyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519,
		ssh.KeyExchangeCurve25519, // and curve25519-sha256@libssh.org, its older name
		ssh.KeyExchangeECDHP256,
		ssh.KeyExchangeECDHP384,
		ssh.KeyExchangeECDHP521,
	}
	ciphers = []string{
		ssh.CipherChaCha20Poly1305,
		ssh.CipherAES128GCM,
		ssh.CipherAES256GCM,
		ssh.CipherAES128CTR,
		ssh.CipherAES192CTR,
		ssh.CipherAES256CTR,
	}
	macs = []string{
		ssh.HMACSHA256ETM,
		ssh.HMACSHA512ETM,
		ssh.HMACSHA256,
		ssh.HMACSHA512,
		ssh.HMACSHA1,
	}

	// signatures are those of users and of the authorities of certificates, and the server's own.
	signatures = []string{
		ssh.KeyAlgoED25519,
		ssh.KeyAlgoECDSA256,
		ssh.KeyAlgoECDSA384,
		ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKED25519,
		ssh.KeyAlgoSKECDSA256,
		ssh.KeyAlgoRSASHA512,
		ssh.KeyAlgoRSASHA256,
	}
)

// The weaker ones, in the order in which they are offered behind the others.
var (
	legacyKeyExchanges = []string{
		ssh.KeyExchangeDH16SHA512,
		ssh.KeyExchangeDHGEXSHA256,
		ssh.KeyExchangeDH14SHA256,
		ssh.InsecureKeyExchangeDH14SHA1,
		ssh.InsecureKeyExchangeDHGEXSHA1,
		ssh.InsecureKeyExchangeDH1SHA1,
	}
	legacyCiphers    = []string{ssh.InsecureCipherAES128CBC, ssh.InsecureCipherTripleDESCBC}
	legacyMACs       = []string{ssh.InsecureHMACSHA196}
	legacySignatures = []string{ssh.KeyAlgoRSA} // DSA is gone from OpenSSH 10 altogether
)

// LegacyAlgorithms returns the names that Config.LegacyAlgorithms may hold.
func LegacyAlgorithms() []string {
	return slices.Concat(legacyKeyExchanges, legacyCiphers, legacyMACs, legacySignatures)
}

// offer is what one server offers.
type offer struct{ keyExchanges, ciphers, macs, signatures []string }

// offerWith returns what is offered together with the weaker algorithms that are asked for.
func offerWith(legacy []string) (offer, error) {
	for _, name := range legacy {
		if known := LegacyAlgorithms(); !slices.Contains(known, name) {
			return offer{}, fmt.Errorf("there is no legacy algorithm %q; there are %s", name,
				strings.Join(known, ", "))
		}
	}
	with := func(standard, weaker []string) []string {
		list := slices.Clone(standard)
		for _, name := range weaker {
			if slices.Contains(legacy, name) {
				list = append(list, name)
			}
		}
		return list
	}
	return offer{
		keyExchanges: with(keyExchanges, legacyKeyExchanges),
		ciphers:      with(ciphers, legacyCiphers),
		macs:         with(macs, legacyMACs),
		signatures:   with(signatures, legacySignatures),
	}, nil
}

// hostKey bounds what a host key signs with: an RSA key would sign over SHA-1, too.
func (o *offer) hostKey(key ssh.Signer) (ssh.Signer, error) {
	signer, ok := key.(ssh.AlgorithmSigner)
	if !ok || key.PublicKey().Type() != ssh.KeyAlgoRSA {
		return key, nil
	}
	var names []string
	for _, name := range o.signatures {
		switch name {
		case ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA:
			names = append(names, name)
		}
	}
	return ssh.NewSignerWithAlgorithms(signer, names)
}
