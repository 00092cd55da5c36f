package ssh

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// SignatureAlgos are signature algorithms for host keys, users' keys and certificates, in OpenSSH's
// order.
var SignatureAlgos = []string{
	xssh.KeyAlgoED25519, xssh.KeyAlgoECDSA256, xssh.KeyAlgoECDSA384, xssh.KeyAlgoECDSA521,
	xssh.KeyAlgoSKED25519, xssh.KeyAlgoSKECDSA256, xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256,
}

const certSuffix = "-cert-v01@openssh.com"

// hostKeyAlgos are the algorithms for a host's proof: certificates first.
var hostKeyAlgos = slices.Concat(certAlgosOf(SignatureAlgos), SignatureAlgos)

func certAlgosOf(plain []string) (certs []string) {
	for _, algo := range plain {
		certs = append(certs, CertAlgo(algo))
	}
	return certs
}

// CertAlgo returns the certificate's algorithm for a signature algorithm.
func CertAlgo(base string) string { return strings.TrimSuffix(base, "@openssh.com") + certSuffix }

// BaseAlgo returns the signature algorithm behind a certificate's algorithm.
func BaseAlgo(algo string) string {
	base, cert := strings.CutSuffix(algo, certSuffix)
	if cert && strings.HasPrefix(base, "sk-") {
		return base + "@openssh.com"
	}
	return base
}

// PlainKey returns the key within a certificate, or a key that is none.
func PlainKey(key xssh.PublicKey) xssh.PublicKey {
	if cert, ok := key.(*xssh.Certificate); ok {
		return cert.Key
	}
	return key
}

// KeyTypeOf returns the key type for an algorithm: RFC 8332 for RSA.
func KeyTypeOf(algo string) string {
	switch algo {
	case xssh.KeyAlgoRSASHA256, xssh.KeyAlgoRSASHA512:
		return xssh.KeyAlgoRSA
	case xssh.CertAlgoRSASHA256v01, xssh.CertAlgoRSASHA512v01:
		return xssh.CertAlgoRSAv01
	}
	return algo
}

// signatureAlgos returns the algorithms under which a key can be offered, best first.
func signatureAlgos(signer xssh.Signer) []string {
	key := signer.PublicKey()
	var can []string // nil means all
	if m, ok := signer.(xssh.MultiAlgorithmSigner); ok {
		can = m.Algorithms()
	} else if _, ok := signer.(xssh.AlgorithmSigner); !ok && strings.HasPrefix(key.Type(),
		"ssh-rsa") {
		return nil // it signs only with SHA-1
	}
	var algos []string
	for _, base := range SignatureAlgos {
		algo := base
		if strings.HasSuffix(key.Type(), certSuffix) {
			algo = CertAlgo(base)
		}
		if KeyTypeOf(algo) == key.Type() && (can == nil || slices.Contains(can, base)) {
			algos = append(algos, algo)
		}
	}
	return algos
}

// sign signs data under one of signatureAlgos.
func sign(signer xssh.Signer, data []byte, algo string) (*xssh.Signature, error) {
	var s *xssh.Signature
	var err error
	if a, ok := signer.(xssh.AlgorithmSigner); ok {
		s, err = a.SignWithAlgorithm(rand.Reader, data, BaseAlgo(algo))
	} else {
		s, err = signer.Sign(rand.Reader, data)
	}
	if err == nil && s.Format != BaseAlgo(algo) {
		err = fmt.Errorf("the key signed with %s instead of %s", s.Format, BaseAlgo(algo))
	}
	return s, err
}

func appendSignature(p []byte, s *xssh.Signature) []byte {
	blob := appendString(appendString([]byte(nil), s.Format), s.Blob)
	return appendString(p, append(blob, s.Rest...))
}

// maxSignature limits a signature: RSA's with 16384 bits takes 2 KiB.
const maxSignature = 8 << 10

func parseSignature(p []byte) (*xssh.Signature, error) {
	var s xssh.Signature
	if len(p) > maxSignature {
		return nil, errors.New("the signature is too long")
	}
	if err := xssh.Unmarshal(p, &s); err != nil {
		return nil, errors.New("invalid signature")
	}
	return &s, nil
}

// verify checks a signature under the negotiated algorithm. The key's type and the signature's
// format must match it; otherwise a peer could choose a weaker one.
func verify(key xssh.PublicKey, algo string, data, signature []byte) error {
	s, err := parseSignature(signature)
	if err != nil {
		return err
	}
	if key.Type() != KeyTypeOf(algo) {
		return fmt.Errorf("got a key of type %.64q, but %s was negotiated", key.Type(), algo)
	}
	if s.Format != BaseAlgo(algo) {
		return fmt.Errorf("got a signature of type %.64q, but %s was negotiated", s.Format, algo)
	}
	// Nothing outside the exchange hash is accepted. Only hardware keys sign with more than the
	// blob: flags and a counter, which Verify checks (PROTOCOL.u2f, "SSH U2F Signatures").
	if len(s.Rest) > 0 && !strings.HasPrefix(s.Format, "sk-") {
		return errors.New("the signature has trailing data")
	}
	return key.Verify(data, s)
}

// checkHostKey makes the client verify the server's proof and, in the first exchange, ask whether
// the key is the right one. Later exchanges must show the same key.
func (t *transport) checkHostKey(reply *kexReply, result *kexResult, algo string) error {
	key, err := xssh.ParsePublicKey(reply.hostKey)
	if err != nil {
		return errors.New("ssh: the host key cannot be read")
	}
	if err := verify(key, algo, result.hash, reply.signature); err != nil {
		return fmt.Errorf("ssh: host key: %w", err)
	}
	if t.hostKey != nil {
		if !bytes.Equal(t.hostKey.Marshal(), reply.hostKey) {
			return errors.New("ssh: the host key has changed since the last key exchange")
		}
		return nil
	}
	if err := t.acceptHostKey(key, algo); err != nil {
		return err
	}
	t.hostKey, t.hostProof = key, bytes.Clone(reply.signature)
	return nil
}

// hostSigner returns the server's key for an algorithm.
func hostSigner(keys []xssh.Signer, algo string) xssh.Signer {
	for _, key := range keys {
		if slices.Contains(signatureAlgos(key), algo) {
			return key
		}
	}
	return nil
}
