package dial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// fromCommand stands for the file's name in what KnownHostsCommand has printed.
const fromCommand = "KnownHostsCommand"

// runCommand adds to set what KnownHostsCommand, if there is one, knows about the host. As ssh does,
// it is run before the key exchange with the reason ORDER, for the types of the host's keys, and
// with HOSTNAME when the host has shown its key; and never for a name without the port. If it
// fails, so does the login: it may know that a key is revoked.
func (h *hostKeyChecker) runCommand(ctx context.Context, set *knownSet, reason string,
	key ssh.PublicKey) error {
	if h.s.knownHostsCommand == "" {
		return nil
	}
	x, name := h.s.tokens(), h.s.knownAs()
	maps.Copy(x.tokens, map[byte]string{'H': name, 'I': reason, 'K': "NONE", 'f': "NONE",
		't': "NONE"})
	if key != nil {
		maps.Copy(x.tokens, map[byte]string{'f': ssh.FingerprintSHA256(key), 't': key.Type(),
			'K': base64.StdEncoding.EncodeToString(key.Marshal())})
	}
	words, err := splitCommand(h.s.knownHostsCommand)
	for i := range words {
		if err == nil {
			words[i], err = x.expand(words[i])
		}
	}
	if err == nil && !filepath.IsAbs(words[0]) {
		err = fmt.Errorf("%s is not an absolute path", words[0])
	}
	if err != nil {
		return fmt.Errorf("%s: %w", fromCommand, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, resolveTimeout,
		&timeoutError{"running it", resolveTimeout})
	defer cancel()
	stdout, stderr, err := printed(ctx, h.s.environ, words[0], words[1:]...)
	if err == nil && stdout.full {
		err = fmt.Errorf("it printed more than %d bytes", maxConfig)
	}
	if err != nil {
		err = cmp.Or(context.Cause(ctx), err)
		if text := complaint(stderr.Bytes()); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return fmt.Errorf("%s %s failed: %w", fromCommand, words[0], err)
	}
	return set.read(bytes.NewReader(stdout.Bytes()), fromCommand, name, h.asker.log)
}
