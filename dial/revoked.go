package dial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
)

// krlMagic begins a key revocation list (PROTOCOL.krl).
const krlMagic = "SSHKRL\n\x00"

// revokedByFile looks for a host's key in RevokedHostKeys: a list of public keys, of hosts or of
// authorities, or a key revocation list, which ssh-keygen reads. As in ssh, what cannot be read
// lets no key through.
func (h *hostKeyChecker) revokedByFile(ctx context.Context, key ssh.PublicKey,
	names []ssh.PublicKey) error {
	file := h.s.revokedHostKeys
	if file == "" {
		return nil
	}
	problem := h.problem(HostKeyRevoked, key)
	problem.File = file
	fail := func(err error) error { return fmt.Errorf("RevokedHostKeys: %s: %w", file, err) }
	f, err := openKnownHosts(ctx, file, h.asker.pipes)
	if err != nil {
		return fmt.Errorf("RevokedHostKeys: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKnownHosts))
	if err == nil && len(text) == maxKnownHosts {
		err = errors.New("too large")
	}
	if err != nil {
		return fail(err)
	}
	if bytes.HasPrefix(text, []byte(krlMagic)) {
		listed, err := h.listed(ctx, file, key)
		if listed {
			return problem
		}
		if err != nil {
			return fail(err)
		}
		return nil
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		revoked, _, _, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil {
			return fail(fmt.Errorf("line %d holds no key", n))
		}
		for _, k := range names {
			if sameKey(k, own.PlainKey(revoked)) { // a certificate stands for its key
				problem.Line = n
				return problem
			}
		}
	}
	return nil
}

// listed asks ssh-keygen whether a key revocation list has a key.
func (h *hostKeyChecker) listed(ctx context.Context, list string, key ssh.PublicKey) (bool, error) {
	program := h.s.find("ssh-keygen")
	if program == "" {
		return false, errors.New("a key revocation list takes ssh-keygen, which is not installed")
	}
	f, err := os.CreateTemp("", "usftp-hostkey-")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(ssh.MarshalAuthorizedKey(key))
	if err = cmp.Or(err, f.Close()); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	out, stderr, err := printed(ctx, h.s.environ, program, "-Q", "-f", list, f.Name())
	if bytes.HasSuffix(bytes.TrimSpace(out.Bytes()), []byte(": REVOKED")) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %s", err, complaint(stderr.Bytes()))
	}
	return false, nil
}
