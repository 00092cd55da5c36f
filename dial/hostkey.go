package dial

import (
	"bytes"
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/sshpattern"
)

// A hostKeyChecker decides about one host's key in one login.
type hostKeyChecker struct {
	s     *settings
	asker *asker
	set   *knownSet
	// portless has the keys known under the plain name, where the port is not 22: OpenSSH falls
	// back to them to accept, never to call a key changed.
	portless *knownSet
	ordering knownSet // what KnownHostsCommand knows before the host has shown its key
}

func newHostKeyChecker(ctx context.Context, s *settings, a *asker) (*hostKeyChecker, error) {
	files := slices.Concat(s.userKnown, s.globalKnown)
	set, err := readKnownHosts(ctx, files, s.knownAs(), a)
	if err != nil {
		return nil, err
	}
	h := &hostKeyChecker{s: s, asker: a, set: set, portless: new(knownSet)}
	if s.knownAs() != s.principal() {
		if h.portless, err = readKnownHosts(ctx, files, s.principal(), a); err != nil {
			return nil, err
		}
	}
	return h, h.runCommand(ctx, &h.ordering, "ORDER", nil)
}

// algorithms orders the host key algorithms to ask for: the types of the known keys come first, and
// certificates only where an authority is known for the host. If HostKeyAlgorithms does more than
// append to the default list or remove from it, as for an old host, its order is left as it is.
func (h *hostKeyChecker) algorithms() []string {
	if h.s.hostKeysOrdered {
		return h.s.hostKeyAlgos
	}
	known := h.set.types()
	maps.Copy(known, h.ordering.types())
	if len(known) == 0 {
		known = h.portless.types()
	}
	authorities := len(h.set.authorities)+len(h.ordering.authorities)+
		len(h.portless.authorities) > 0
	var first, then []string
	for _, algo := range h.s.hostKeyAlgos {
		switch {
		case isCertAlgo(algo) && !authorities:
		case isCertAlgo(algo) || known[keyType(algo)]:
			first = append(first, algo)
		default:
			then = append(then, algo)
		}
	}
	if list := append(first, then...); len(list) > 0 {
		return list
	}
	return h.s.hostKeyAlgos // nothing but certificates is allowed
}

// check decides on a key. The transport calls it once the server has proved that it has the key.
func (h *hostKeyChecker) check(ctx context.Context, remote net.Addr, key ssh.PublicKey) error {
	plain := own.PlainKey(key)
	cert, isCert := key.(*ssh.Certificate)
	if err := h.runCommand(ctx, h.set, "HOSTNAME", key); err != nil {
		return err
	}
	if err := h.revoked(ctx, plain, cert); err != nil {
		return err
	}
	if bits := rsaBits(plain); bits > 0 && bits < h.s.minRSABits {
		err := h.problem(HostKeyWeak, plain)
		err.Note = fmt.Sprintf("%d bits; RequiredRSASize requires %d", bits, h.s.minRSABits)
		return err
	}
	if isCert {
		err := h.checkCertificate(cert)
		if err == nil {
			return nil
		}
		// As OpenSSH does: its plain key may be known.
		h.asker.log.Info("the host's certificate is not accepted, trying its key", "host",
			h.s.alias, "error", err)
	}
	if _, ok := find(h.set.keys, plain); ok {
		return nil
	}
	// As in OpenSSH, not if the configuration says which host it is.
	if h.s.trustLoopback && h.s.hostKeyAlias == "" && isLoopback(remote) {
		return nil
	}
	if len(h.set.keys) > 0 {
		return h.changed(h.set, plain)
	}
	if _, ok := find(h.portless.keys, plain); ok {
		return nil
	}
	return h.unknown(ctx, remote, plain)
}

func (h *hostKeyChecker) revoked(ctx context.Context, plain ssh.PublicKey,
	cert *ssh.Certificate) error {
	keys, shown := []ssh.PublicKey{plain}, plain
	if cert != nil {
		keys, shown = append(keys, cert, cert.SignatureKey), cert
	}
	for _, key := range keys {
		for _, set := range []*knownSet{h.set, h.portless} {
			if k, ok := find(set.revoked, key); ok {
				err := h.problem(HostKeyRevoked, key)
				err.File, err.Line = k.file, k.line
				return err
			}
		}
	}
	return h.revokedByFile(ctx, shown, keys)
}

func (h *hostKeyChecker) checkCertificate(cert *ssh.Certificate) error {
	_, ok := find(h.set.authorities, cert.SignatureKey)
	if !ok {
		_, ok = find(h.portless.authorities, cert.SignatureKey)
	}
	if !ok {
		return fmt.Errorf("no @cert-authority line for %s lists the key that signed it", h.s.knownAs())
	}
	if cert.CertType != ssh.HostCert {
		return errors.New("not a host certificate")
	}
	if !slices.Contains(h.s.caAlgos, cert.Signature.Format) {
		return fmt.Errorf("signed with %s, which CASignatureAlgorithms does not list",
			cert.Signature.Format)
	}
	// It would be valid for every host. OpenSSH 10.3 matches none; older ones took it for all.
	if len(cert.ValidPrincipals) == 0 {
		return errors.New("names no host")
	}
	// OpenSSH takes a host certificate's principals as patterns; x/crypto/ssh compares.
	principal := h.s.principal()
	for _, p := range cert.ValidPrincipals {
		if sshpattern.Match(p, principal) {
			principal = p
			break
		}
	}
	return new(ssh.CertChecker).CheckCert(principal, cert)
}

func (h *hostKeyChecker) problem(p HostKeyProblem, key ssh.PublicKey) *HostKeyError {
	return &HostKeyError{
		Problem: p, Name: h.s.knownAs(),
		KeyType: keyTypeName(key), Fingerprint: ssh.FingerprintSHA256(key),
	}
}

// unknown decides about a key that no file mentions.
func (h *hostKeyChecker) unknown(ctx context.Context, remote net.Addr, key ssh.PublicKey) error {
	name := h.s.knownAs()
	if h.asker.isAccepted(name, key) { // for an earlier connection
		return nil
	}
	// The files would say that it has changed, if the key could have been stored.
	if h.s.strict != "no" && h.asker.hasAccepted(name) {
		return h.problem(HostKeyChanged, key)
	}
	problem := h.problem(HostKeyUnknown, key)
	var fresh bool
	switch h.s.strict {
	case "yes":
		problem.Note = "StrictHostKeyChecking is yes"
		return problem
	case "ask":
		var err error
		if fresh, err = h.asker.hostKey(ctx, h.s, remote, key, problem); err != nil {
			return err
		}
	default:
		if h.set.unread != nil { // nobody looks at the warning, and it may hold another key
			return h.set.unread
		}
		var ok bool
		if fresh, ok = h.asker.accept(name, key, h.s.strict == "no"); !ok {
			return h.problem(HostKeyChanged, key)
		}
	}
	if !fresh || len(h.s.userKnown) == 0 {
		return nil
	}
	err := h.store(ctx, name, key)
	if _, changed := errors.AsType[*HostKeyError](err); changed {
		return err
	}
	if err != nil {
		h.note(ctx, "Failed to add the host '%s' to the list of known hosts: %v", name, err)
	}
	return nil
}

// storing is held from the look at the known_hosts files to the new line.
var storing sync.Mutex

// store adds a key to the known hosts, unless another connection has added one since the files were
// read.
func (h *hostKeyChecker) store(ctx context.Context, name string, key ssh.PublicKey) error {
	storing.Lock()
	defer storing.Unlock()
	set, err := readKnownHosts(ctx, slices.Concat(h.s.userKnown, h.s.globalKnown), name, h.asker)
	if err != nil {
		return err
	}
	if _, ok := find(set.keys, key); ok {
		return nil
	}
	if len(set.keys) > 0 {
		return h.changed(set, key)
	}
	if h.asker.pipes.has(h.s.userKnown[0]) { // nobody would read it, or another program would
		return fmt.Errorf("%s is a pipe", h.s.userKnown[0])
	}
	err = appendKnownHost(h.s.userKnown[0], name, key, h.s.hashKnownHosts)
	if err == nil { // as ssh says it (sshconnect.c)
		h.note(ctx, "Warning: Permanently added '%s' (%s) to the list of known hosts.", name,
			keyTypeName(key))
	}
	return err
}

// note says what ssh says with the LogLevel INFO, its default.
func (h *hostKeyChecker) note(ctx context.Context, format string, args ...any) {
	level := slog.LevelWarn
	if h.s.quiet {
		level = slog.LevelInfo
	}
	h.asker.log.Log(ctx, level, fmt.Sprintf(format, args...))
}

// changed returns the error for a key where the files have others.
func (h *hostKeyChecker) changed(set *knownSet, key ssh.PublicKey) *HostKeyError {
	err := h.problem(HostKeyChanged, key)
	err.File, err.Line = set.keys[0].file, set.keys[0].line
	for _, k := range set.keys {
		if k.key.Type() == key.Type() {
			err.File, err.Line = k.file, k.line
			break
		}
	}
	return err
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// rsaBits returns the size of an RSA key, or of one in a certificate; 0 for other types.
func rsaBits(key ssh.PublicKey) int {
	if ck, ok := own.PlainKey(key).(ssh.CryptoPublicKey); ok {
		if k, ok := ck.CryptoPublicKey().(*rsa.PublicKey); ok {
			return k.N.BitLen()
		}
	}
	return 0
}

// keyTypeName returns OpenSSH's name for a type of key.
func keyTypeName(key ssh.PublicKey) string {
	switch t := own.BaseAlgo(key.Type()); t {
	case ssh.KeyAlgoRSA:
		return "RSA"
	case ssh.KeyAlgoED25519:
		return "ED25519"
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return "ECDSA"
	case ssh.KeyAlgoSKED25519:
		return "ED25519-SK"
	case ssh.KeyAlgoSKECDSA256:
		return "ECDSA-SK"
	default:
		return strings.ToUpper(t)
	}
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
