//go:build unix

package daemon

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestLogSaysWhyCertificateIsRefused: whole, although the log cuts long texts.
func TestLogSaysWhyCertificateIsRefused(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	for _, name := range []string{"ca", "a", "b", "c"} {
		opensshd.Keygen(t, filepath.Join(home, name))
	}
	file, _, _ := writeConfig(t, home, key,
		"[certificates]\nauthorities = 'ca.pub'\nrevoked = 'a.pub'\n")
	s := servetest.Start(t, home, "usftpd", "--config", file)
	for i, one := range []struct{ key, option, why string }{
		{"a", "no-pty", "the key has been revoked"},
		{"b", "force-command=ls", `the certificate's option "force-command" is not supported`},
		{"c", "source-address=192.0.2.0/24", "the certificate is not for this address"},
	} {
		sign := exec.Command(opensshd.Find(t, "ssh-keygen"), "-q", "-s", "ca", "-I", "id",
			"-n", "alice", "-O", one.option, one.key+".pub")
		sign.Dir = home
		if out, err := sign.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := s.SFTP("alice", filepath.Join(home, one.key), "pwd\n"); err == nil {
			t.Errorf("%s lets its owner in:\n%s", one.key, out)
		}
		failed := map[any]bool{}
		line := s.Wait("login failed", func(line map[string]any) bool {
			failed[line["time"]] = true
			return len(failed) > i
		})
		if text, _ := line["error"].(string); !strings.Contains(text, one.why) {
			t.Errorf("%s: %q, want %q", one.key, text, one.why)
		}
	}
}
