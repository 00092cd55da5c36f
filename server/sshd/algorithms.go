package sshd

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
)

// serverVersion is the server's version line (RFC 4253, section 4.2).
const serverVersion = "SSH-2.0-usftp"

// The defaults are those of OpenSSH 10's sshd (myproposal.h) that internal/ssh implements: no
// Diffie-Hellman groups over integers, no SHA-1. Anything weaker must be requested by name; see
// Config.LegacyAlgorithms.
var (
	keyExchanges = []string{
		ssh.KeyExchangeMLKEM768X25519,
		ssh.KeyExchangeCurve25519,
		"curve25519-sha256@libssh.org", // its older name
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
	}
)

// legacyKeyExchanges are weaker or slower. They are offered after the others, in this order.
var legacyKeyExchanges = []string{
	ssh.KeyExchangeDH16SHA512,
	ssh.KeyExchangeDHGEXSHA256,
	ssh.KeyExchangeDH14SHA256,
}

// Ciphers returns the names allowed in Config.Ciphers.
func Ciphers() []string { return slices.Clone(ciphers) }

// LegacyAlgorithms returns the names allowed in Config.LegacyAlgorithms.
func LegacyAlgorithms() []string { return slices.Clone(legacyKeyExchanges) }

// offerWith returns the algorithms to offer, including the requested legacy ones.
func offerWith(legacy []string) (transport.Algorithms, error) {
	for _, name := range legacy {
		if known := LegacyAlgorithms(); !slices.Contains(known, name) {
			return transport.Algorithms{}, fmt.Errorf("unknown legacy algorithm %q; use %s",
				name, strings.Join(known, ", "))
		}
	}
	offer := transport.Algorithms{KeyExchanges: slices.Clone(keyExchanges), Ciphers: ciphers,
		MACs: macs}
	for _, weaker := range legacyKeyExchanges {
		if slices.Contains(legacy, weaker) {
			offer.KeyExchanges = append(offer.KeyExchanges, weaker)
		}
	}
	return offer, nil
}
