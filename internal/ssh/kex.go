package ssh

import (
	"crypto"
	_ "crypto/sha256" // the hashes of kexSpecs
	_ "crypto/sha512"
	"hash"
)

// A kexMethod is one method of key exchange, for one exchange.
type kexMethod interface {
	// client sends the client's first message, and finishes with the server's answer.
	client(t *transport) (*kexReply, *kexResult, error)
	// server answers; sign gets the result and returns the host key and its signature.
	server(t *transport, sign func(*kexResult) (*kexReply, error)) (*kexResult, error)
}

// kexReply is the server's proof.
type kexReply struct {
	hostKey   []byte
	signature []byte
}

// kexResult is the result that both sides have at the end.
type kexResult struct {
	secret []byte // encoded as in hashes: an mpint, or a string with ML-KEM
	// public is the method's part of the exchange hash, between the host key and the secret.
	public []byte
	// hash is H, the exchange hash.
	hash []byte
}

type kexSpec struct {
	name   string
	hash   crypto.Hash
	method func() kexMethod
}

// kexSpecs are in our order of preference. ML-KEM is draft-ietf-sshm-mlkem-hybrid-kex; RFC 8731,
// RFC 5656, RFC 8268 and RFC 4419 are the others. Finite fields come last, for old servers.
var kexSpecs = []kexSpec{
	{"mlkem768x25519-sha256", crypto.SHA256, newMLKEM},
	{"curve25519-sha256", crypto.SHA256, newX25519},
	{"curve25519-sha256@libssh.org", crypto.SHA256, newX25519},
	{"ecdh-sha2-nistp256", crypto.SHA256, newP256},
	{"ecdh-sha2-nistp384", crypto.SHA384, newP384},
	{"ecdh-sha2-nistp521", crypto.SHA512, newP521},
	{"diffie-hellman-group16-sha512", crypto.SHA512, newGroup16},
	{"diffie-hellman-group14-sha256", crypto.SHA256, newGroup14},
	{"diffie-hellman-group-exchange-sha256", crypto.SHA256, newGroupExchange},
}

func kexNamed(name string) *kexSpec {
	return find(kexSpecs, func(k kexSpec) bool { return k.name == name })
}

// exchangeHash computes H of an exchange: RFC 4253, section 8. It keeps no copies of the messages,
// since a peer may wait between them.
type exchangeHash struct{ hash.Hash }

func (h exchangeHash) add(part []byte) {
	h.Write(appendUint32(nil, uint32(len(part))))
	h.Write(part)
}

// finish fills in H.
func (h exchangeHash) finish(hostKey []byte, result *kexResult) {
	h.add(hostKey)
	h.Write(result.public)
	h.Write(result.secret)
	result.hash = h.Sum(nil)
}

// derive derives key material: RFC 4253, section 7.2.
func (r *kexResult) derive(hash crypto.Hash, letter byte, session []byte, n int) []byte {
	if n == 0 {
		return nil
	}
	h := hash.New()
	h.Write(r.secret)
	h.Write(r.hash)
	h.Write([]byte{letter})
	h.Write(session)
	out := h.Sum(nil)
	for len(out) < n {
		h.Reset()
		h.Write(r.secret)
		h.Write(r.hash)
		h.Write(out)
		out = h.Sum(out)
	}
	return out[:n]
}

// keys derives the keys of one direction.
func (r *kexResult) keys(hash crypto.Hash, session []byte, c *cipherSpec, mac *macSpec,
	way int) keys {
	letter := func(first byte) byte { return first + byte(way) }
	k := keys{
		iv:  r.derive(hash, letter('A'), session, c.iv),
		key: r.derive(hash, letter('C'), session, c.key),
	}
	if !c.aead {
		k.spec = mac
		k.mac = r.derive(hash, letter('E'), session, mac.key)
	}
	return k
}
