package ssh

import (
	"crypto/rand"
	"slices"
	"strings"
)

// kexInit is KEXINIT: RFC 4253, section 7.1.
type kexInit struct {
	cookie   [16]byte
	kex      []string
	hostKeys []string
	ciphers  [2][]string // client to server, server to client
	macs     [2][]string
	compress [2][]string
	follows  bool // a guessed key exchange message follows
}

func (k *kexInit) append(p []byte) []byte {
	p = append(append(p, msgKexInit), k.cookie[:]...)
	for _, names := range [][]string{k.kex, k.hostKeys, k.ciphers[0], k.ciphers[1], k.macs[0],
		k.macs[1], k.compress[0], k.compress[1], nil, nil} {
		p = appendNames(p, names)
	}
	return appendUint32(appendBool(p, k.follows), 0)
}

func (k *kexInit) parse(payload []byte) error {
	r := body(payload, msgKexInit)
	for i := range k.cookie {
		k.cookie[i] = r.Byte()
	}
	for _, names := range []*[]string{&k.kex, &k.hostKeys, &k.ciphers[0], &k.ciphers[1], &k.macs[0],
		&k.macs[1], &k.compress[0], &k.compress[1]} {
		*names = r.Names()
	}
	r.Bytes() // languages
	r.Bytes()
	k.follows = r.Bool()
	r.Uint32()
	return r.parsed()
}

// Names in the key exchange list that are not algorithms: RFC 8308, section 2.1, and PROTOCOL,
// section 1.10.
const (
	extInfoClient  = "ext-info-c"
	strictClient   = "kex-strict-c-v00@openssh.com"
	strictServer   = "kex-strict-s-v00@openssh.com"
	uncompressed   = "none"
	clientToServer = 0
	serverToClient = 1
)

// Algorithms are the algorithms one side offers, in order of preference; the client's order
// decides. An empty list means everything supported, in our order.
type Algorithms struct {
	KeyExchanges []string
	HostKeys     []string // signature algorithms, including certificates' algorithms
	Ciphers      []string
	MACs         []string // not used with an AEAD
	Compress     bool     // after the login: a client asks for it, and a server allows it

	// Compressed, if not nil, counts compression's work. Connections may share it.
	Compressed *Compressed
}

// Supported returns everything supported, in our order of preference.
func Supported() Algorithms {
	a := Algorithms{HostKeys: slices.Clone(hostKeyAlgos)}
	for _, k := range kexSpecs {
		a.KeyExchanges = append(a.KeyExchanges, k.name)
	}
	for _, c := range cipherSpecs {
		a.Ciphers = append(a.Ciphers, c.name)
	}
	for _, m := range macSpecs {
		a.MACs = append(a.MACs, m.name)
	}
	return a
}

// withDefaults fills in empty lists, and drops unsupported names.
func (a Algorithms) withDefaults() (Algorithms, error) {
	all := Supported()
	for _, l := range []struct {
		what      string
		list, all *[]string
	}{
		{"key exchange", &a.KeyExchanges, &all.KeyExchanges},
		{"host key", &a.HostKeys, &all.HostKeys},
		{"cipher", &a.Ciphers, &all.Ciphers}, {"MAC", &a.MACs, &all.MACs},
	} {
		if len(*l.list) == 0 {
			*l.list = *l.all
			continue
		}
		asked := *l.list
		*l.list = slices.DeleteFunc(slices.Clone(asked),
			func(n string) bool { return !slices.Contains(*l.all, n) })
		if len(*l.list) == 0 {
			return a, &NegotiationError{What: l.what, Ours: *l.all, Theirs: asked}
		}
	}
	return a, nil
}

// kexInit returns our KEXINIT. Only the first one announces extensions.
func (a Algorithms) kexInit(client, first bool) *kexInit {
	k := &kexInit{kex: slices.Clone(a.KeyExchanges), hostKeys: a.HostKeys,
		ciphers: [2][]string{a.Ciphers, a.Ciphers}, macs: [2][]string{a.MACs, a.MACs},
		compress: [2][]string{a.compressions(client), a.compressions(client)}}
	switch {
	case !first:
	case client:
		k.kex = append(k.kex, extInfoClient, strictClient)
	default:
		k.kex = append(k.kex, strictServer)
	}
	rand.Read(k.cookie[:])
	return k
}

// Negotiated is the set of algorithms that both sides have agreed on.
type Negotiated struct {
	KeyExchange, HostKey string
	// Index 0 is client to server, 1 server to client. A MAC is "" with an AEAD.
	Ciphers, MACs, Compressions [2]string
}

// chooseAlgorithms applies RFC 4253, section 7.1: the first of the client's algorithms that the
// server has too.
func chooseAlgorithms(client, server *kexInit, isClient bool) (Negotiated, error) {
	var n Negotiated
	var failed error
	// Extension names are not algorithms, whatever the peer sends.
	algorithms := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool {
			return strings.HasPrefix(n, "kex-strict-") || strings.HasPrefix(n, "ext-info-")
		})
	}
	pick := func(what string, c, s []string) string {
		c, s = algorithms(c), algorithms(s)
		for _, name := range c {
			if slices.Contains(s, name) {
				return strings.Clone(name) // not the whole list's memory
			}
		}
		if failed == nil {
			e := &NegotiationError{What: what, Ours: c, Theirs: s}
			if !isClient {
				e.Ours, e.Theirs = s, c
			}
			failed = e
		}
		return ""
	}
	n.KeyExchange = pick("key exchange", client.kex, server.kex)
	n.HostKey = pick("host key", client.hostKeys, server.hostKeys)
	for i, way := range []string{" to the server", " to the client"} {
		n.Ciphers[i] = pick("cipher"+way, client.ciphers[i], server.ciphers[i])
		if c := cipherNamed(n.Ciphers[i]); c == nil || !c.aead {
			n.MACs[i] = pick("MAC"+way, client.macs[i], server.macs[i])
		}
		n.Compressions[i] = pick("compression"+way, client.compress[i], server.compress[i])
	}
	return n, failed
}

// guessedWrong reports whether the peer's guessed message must be skipped: it is right only if both
// sides' first key exchange method and first host key algorithm agree.
func guessedWrong(ours, theirs *kexInit) bool {
	first := func(names []string) string {
		if len(names) == 0 {
			return ""
		}
		return names[0]
	}
	return theirs.follows && (first(ours.kex) != first(theirs.kex) ||
		first(ours.hostKeys) != first(theirs.hostKeys))
}
