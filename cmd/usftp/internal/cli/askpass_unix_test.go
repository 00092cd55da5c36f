//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestAskpass: where there is no terminal, SSH_ASKPASS is asked about a host key and for a
// passphrase, as with ssh. TestAskpassOrTerminal in package ui has the rules for when.
func TestAskpass(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{NoKnownHosts: true})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("content"))
	key := opensshd.Keygen(t, filepath.Join(dir, "key"), "-t", "ed25519", "-N", "phrase", "-a", "1")
	writeFile(t, sshd.AuthorizedKeys, readFile(t, key+".pub"))
	asked, ask := filepath.Join(dir, "asked"), filepath.Join(dir, "ask")
	writeFile(t, ask, []byte("#!/bin/sh\ncat\nprintf '%s\\n' \"$1\" >>"+asked+
		"\ncase $1 in *fingerprint*) echo yes;; *passphrase*) echo phrase;; *) exit 1;; esac\n"))
	if err := os.Chmod(ask, 0o700); err != nil {
		t.Fatal(err)
	}
	cp := func(source string, env ...string) outcome {
		cmd := command(t, dir, "cp", "-F", sshd.ConfigFile, "-i", key, source,
			"testhost:"+filepath.Join(dir, "b"))
		cmd.Env = append(append(cmd.Env, "DISPLAY=", "WAYLAND_DISPLAY=", "SSH_ASKPASS="+ask), env...)
		cmd.Stdin = strings.NewReader("content")
		return finish(t, cmd)
	}
	if o := cp("a"); o.code == 0 {
		t.Error("it was asked without a display")
	}
	if o := cp("-", "SSH_ASKPASS_REQUIRE=force"); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	servetest.Same(t, []byte("content"), filepath.Join(dir, "b"))
	said := string(readFile(t, asked))
	if !strings.Contains(said, "Are you sure you want to continue connecting") ||
		!strings.Contains(said, "Enter passphrase for key '"+key+"': ") ||
		strings.Count(said, "passphrase") != 1 {
		t.Errorf("asked was %q", said)
	}
}
