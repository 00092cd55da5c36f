//go:build unix

package dial

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKeyInAPipe: a key that can be read only once, as `-i <(program)` gives it, serves for further
// logins.
func TestKeyInAPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, pipe := filepath.Join(dir, "key"), filepath.Join(dir, "pipe")
	srv := newTestServer(t)
	takesKeys(srv, writeKey(t, key, ""))
	text, err := os.ReadFile(key)
	if err == nil {
		err = syscall.Mkfifo(pipe, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(pipe, text, 0) }()
	dialTwice(t, srv.dialer(t, &Config{Identities: []string{pipe}}))
	if err := <-written; err != nil {
		t.Error(err)
	}
}
