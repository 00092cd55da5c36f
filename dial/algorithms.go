package dial

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/cpu"

	own "github.com/usftp/usftp/internal/ssh"
)

// hasAES reports whether the processor has AES and the carry-less multiplication that GCM needs.
// With them AES-128-GCM is several times as fast as any other cipher here. Without them ChaCha20 is
// faster and does not leak the key through the caches.
func hasAES() bool {
	return cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ ||
		cpu.ARM64.HasAES && cpu.ARM64.HasPMULL ||
		cpu.S390X.HasAES && cpu.S390X.HasAESGCM
}

var ctrCiphers = []string{ssh.CipherAES128CTR, ssh.CipherAES192CTR, ssh.CipherAES256CTR}

func preferredCiphers() []string {
	gcm, chacha := []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM},
		[]string{ssh.CipherChaCha20Poly1305}
	if hasAES() {
		return slices.Concat(gcm, chacha, ctrCiphers)
	}
	return slices.Concat(chacha, gcm, ctrCiphers)
}

// signatureAlgos are the algorithms for user keys and for signing host certificates.
var signatureAlgos = slices.DeleteFunc(own.Supported().HostKeys, isCertAlgo)

// An algorithmList is an ssh_config keyword that lists algorithms.
type algorithmList struct {
	keyword   string
	preferred []string // if nothing is configured
	supported []string // that may be configured
	into      *[]string
}

// readAlgorithms resolves the lists and drops algorithms that the transport does not implement. If
// nothing remains it returns an error: it must not connect with algorithms that nobody asked for.
func (s *settings) readAlgorithms(w keywords) error {
	has := own.Supported()
	has.Ciphers = preferredCiphers()
	all, keys := own.Supported(), signatureAlgos
	if s.xcrypto {
		good, bad := ssh.SupportedAlgorithms(), ssh.InsecureAlgorithms()
		has.KeyExchanges, has.MACs = good.KeyExchanges, good.MACs
		has.HostKeys = slices.DeleteFunc(has.HostKeys,
			func(n string) bool { return !slices.Contains(good.HostKeys, n) })
		all = own.Algorithms{
			KeyExchanges: slices.Concat(good.KeyExchanges, bad.KeyExchanges),
			HostKeys:     slices.Concat(good.HostKeys, bad.HostKeys),
			Ciphers:      slices.Concat(good.Ciphers, bad.Ciphers),
			MACs:         slices.Concat(good.MACs, bad.MACs),
		}
		keys = slices.Concat(good.PublicKeyAuths, bad.PublicKeyAuths)
	}
	lists := []algorithmList{
		{"Ciphers", has.Ciphers, all.Ciphers, &s.ciphers},
		{"MACs", has.MACs, all.MACs, &s.macs},
		{"KexAlgorithms", has.KeyExchanges, all.KeyExchanges, &s.kexes},
		{"HostKeyAlgorithms", has.HostKeys, all.HostKeys, &s.hostKeyAlgos},
		{"CASignatureAlgorithms", signatureAlgos, keys, &s.caAlgos},
		{"PubkeyAcceptedAlgorithms", withCerts(signatureAlgos), withCerts(keys), &s.pubkeyAlgos},
	}
	for _, l := range lists {
		values := w[strings.ToLower(l.keyword)]
		if len(values) == 0 {
			*l.into = l.preferred
			continue
		}
		value, names := values[0], []string(nil)
		if value != "" { // ssh -G prints "" for a list from which -* has removed everything
			names = resolveList(value, l.preferred)
		}
		if len(names) == 0 {
			if l.into != &s.caAlgos && l.into != &s.pubkeyAlgos { // a login works without these
				return fmt.Errorf("the ssh configuration leaves no %s", l.keyword)
			}
			*l.into = nil
			continue
		}
		*l.into = slices.DeleteFunc(names,
			func(n string) bool { return !slices.Contains(l.supported, n) })
		if len(*l.into) == 0 {
			return &UnsupportedError{l.keyword, printable([]byte(value))}
		}
	}
	s.hostKeysOrdered = !inOrder(s.hostKeyAlgos, has.HostKeys)
	return nil
}

// inOrder reports whether a list is the default one without some of its names, or with more of them
// behind it.
func inOrder(names, def []string) bool {
	kept := slices.DeleteFunc(slices.Clone(def),
		func(n string) bool { return !slices.Contains(names, n) })
	return slices.Equal(kept, names[:len(kept)])
}

// dropDefaults deletes the algorithm lists that equal ssh's defaults, so that our own order
// applies.
func dropDefaults(w, defaults keywords) {
	for _, key := range []string{"ciphers", "macs", "kexalgorithms", "hostkeyalgorithms",
		"casignaturealgorithms", "pubkeyacceptedalgorithms"} {
		if w.get(key) == defaults.get(key) {
			delete(w, key)
		}
	}
}

// resolveList applies the prefixes +, - and ^ to the default list.
func resolveList(value string, def []string) []string {
	if value == "" {
		return slices.Clone(def)
	}
	names := strings.Split(strings.TrimLeft(value, "+-^"), ",")
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	matches := func(n string) bool {
		return slices.ContainsFunc(names, func(pattern string) bool {
			ok, err := path.Match(pattern, n)
			return ok && err == nil
		})
	}
	switch value[0] {
	case '+':
		return unique(slices.Concat(def, names))
	case '^':
		return unique(slices.Concat(names, def))
	case '-':
		return slices.DeleteFunc(slices.Clone(def), matches)
	}
	return unique(names)
}

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func isCertAlgo(algo string) bool { return own.BaseAlgo(algo) != algo }

// keyType returns the type of key that signs with algo, also for a certificate.
func keyType(algo string) string { return own.KeyTypeOf(own.BaseAlgo(algo)) }

// withCerts adds the certificate forms of the algorithms.
func withCerts(algos []string) []string {
	out := slices.Clone(algos)
	for _, a := range algos {
		out = append(out, own.CertAlgo(a))
	}
	return out
}
