//go:build unix

package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// OpenSSH's scp compresses to a server that allows it, and to none that has not been asked to.
func TestServeCompress(t *testing.T) {
	t.Parallel()
	scp := opensshd.Find(t, "scp")
	for flag, compression := range map[string]string{"--compress": "zlib@openssh.com",
		"--read-only=false": "none"} {
		dir, home := t.TempDir(), t.TempDir()
		key := opensshd.Keygen(t, filepath.Join(home, "key"))
		data := []byte(strings.Repeat("a line of a log\n", 200_000))
		writeFile(t, filepath.Join(home, "a"), data)
		s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u",
			"--authorized-keys", key+".pub", flag, dir)
		out := s.Must("", scp, s.SSHFlags("-v", "-C", "-i", key, "a", "u@127.0.0.1:b")...)
		s.Must("", scp, s.SSHFlags("-C", "-i", key, "u@127.0.0.1:b", "c")...)
		servetest.Same(t, data, filepath.Join(dir, "b"), filepath.Join(home, "c"))
		if !strings.Contains(out, "compression: "+compression) {
			t.Errorf("%s: %s", flag, out)
		}
		s.End(syscall.SIGINT, 0)
	}
}
