package ssh

import (
	"regexp"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// A server tells clients all its host keys after the login, and proves that it has the keys that
// they do not know, so that they learn a new key before the old one goes: OpenSSH's PROTOCOL,
// section 2.5.
const (
	hostKeysRequest = "hostkeys-00@openssh.com"
	proveRequest    = "hostkeys-prove-00@openssh.com"
)

// mostProofs is how often a client may ask for proofs, which take processor time. OpenSSH's asks
// once.
const mostProofs = 2

// confused are clients that end the connection on this message, to which OpenSSH's server does not
// send it either: Tera Term up to 2.72 and WinSCP up to 5.7.4.
var confused = regexp.MustCompile(
	`^SSH-2\.0-(TTSSH/(1\.5|2\.[1-6]|2\.7[0-2])|WinSCP_release_(4|5\.[0-6]|5\.7(\.[1-4])?$))`)

// hostKeysMessage returns the message that lists the server's keys for the client, or nil.
func (t *transport) hostKeysMessage() []byte {
	var keys []byte
	for _, signer := range t.hostKeys {
		if t.proofAlgo(signer) != "" {
			keys = appendString(keys, signer.PublicKey().Marshal())
		}
	}
	if keys == nil || confused.Match(t.theirs) {
		return nil
	}
	g := globalRequest{kind: hostKeysRequest, extra: keys}
	return g.append(nil)
}

// proofAlgo returns the algorithm with which a key is proved, or "" if it is not: certificates
// themselves name the host. With an RSA key the client expects the negotiated algorithm, if that
// was for RSA.
func (t *transport) proofAlgo(signer xssh.Signer) string {
	algos := signatureAlgos(signer)
	switch {
	case len(algos) == 0 || strings.HasSuffix(algos[0], certSuffix):
		return ""
	case slices.Contains(algos, t.negotiated.HostKey):
		return t.negotiated.HostKey
	}
	return algos[0]
}

// proveHostKeys answers a client that asks for proofs of keys.
func (m *mux) proveHostKeys(g *globalRequest) error {
	if m.proofs++; m.proofs <= mostProofs {
		if signatures, ok := m.t.proofs(g.extra); ok {
			return m.t.out.control(append([]byte{msgRequestSuccess}, signatures...))
		}
	}
	return m.t.out.control([]byte{msgRequestFailure})
}

// proofs returns a signature for each key. ok is false if the server does not have one of the keys,
// or one comes twice.
func (t *transport) proofs(keys []byte) (signatures []byte, ok bool) {
	left := slices.Clone(t.hostKeys)
	for len(keys) > 0 {
		r := fields(keys, msgGlobalRequest)
		key := r.Bytes()
		if r.Err() != nil {
			return nil, false
		}
		keys = r.Rest()
		i := slices.IndexFunc(left, func(s xssh.Signer) bool {
			return string(s.PublicKey().Marshal()) == string(key)
		})
		if i < 0 || t.proofAlgo(left[i]) == "" {
			return nil, false
		}
		data := appendString(appendString(appendString(nil, proveRequest), t.session), key)
		s, err := sign(left[i], data, t.proofAlgo(left[i]))
		if err != nil {
			return nil, false
		}
		signatures = appendSignature(signatures, s)
		left = slices.Delete(left, i, i+1)
	}
	return signatures, len(signatures) > 0
}
