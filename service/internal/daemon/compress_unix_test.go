//go:build unix

package daemon

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// OpenSSH's sftp compresses if the configuration allows it, and only then.
func TestCompress(t *testing.T) {
	t.Parallel()
	sftp := opensshd.Find(t, "sftp")
	for setting, compression := range map[string]string{"compress = true": "zlib@openssh.com",
		"": "none"} {
		home := t.TempDir()
		key := opensshd.Keygen(t, filepath.Join(home, "id"))
		file, alice, _ := writeConfig(t, home, key, setting)
		data := []byte(strings.Repeat("a line of a log\n", 20_000))
		writeFile(t, filepath.Join(home, "a"), data)
		s := servetest.Start(t, home, "usftpd", "--config", file)
		out := s.Must("put a b\nget b c\n", sftp, s.SSHFlags("-v", "-C", "-i", key, "-b", "-",
			"alice@127.0.0.1")...)
		servetest.Same(t, data, filepath.Join(alice, "b"), filepath.Join(home, "c"))
		if !strings.Contains(out, "compression: "+compression) {
			t.Errorf("%q: %s", setting, out)
		}
		s.End(syscall.SIGINT, 0)
	}
}
