//go:build unix

package dial

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUnreadableKnownHosts: a file that may not be opened, such as an administrator's, keeps nobody
// from a host that another file knows, and lets no key in that nobody has looked at.
func TestUnreadableKnownHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "loop") // root may open any other
	if err := os.Symlink(file, file); err != nil {
		t.Fatal(err)
	}
	key := newSigner(t).PublicKey()
	var log bytes.Buffer
	p := &script{answers: []string{"yes"}}
	a := newAsker(&Config{Prompter: p, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, c := range []struct {
		text, strict string
		want         error
	}{
		{"h " + authorizedLine(key) + "\n", "yes", nil},
		{"", "accept-new", syscall.ELOOP},
		{"", "no", syscall.ELOOP},
		{"", "ask", nil},
	} {
		known := writeFile(t, filepath.Join(t.TempDir(), "known"), c.text)
		s := &settings{alias: "h", host: "h", port: 22, strict: c.strict,
			userKnown: []string{known}, globalKnown: []string{file}}
		h, err := newHostKeyChecker(t.Context(), s, a)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.check(t.Context(), remoteAddr, key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", c.strict, err, c.want)
		}
	}
	if warning := "known hosts: " + file + ": too many levels of symbolic links"; strings.Count(
		log.String(), warning) != 1 {
		t.Errorf("%s\nnot once: %s", log.String(), warning)
	}
}
