//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// After one command, everybody's clients can connect as its output says.
func TestServe(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	dir, data := t.TempDir(), randomData(3_000_001)
	writeFile(t, filepath.Join(home, "a"), data)
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", dir)
	if _, ok := s.Greeting["password"]; ok {
		t.Error("there is a key, and a password was made nevertheless")
	}
	if want := dir + ", read and write"; s.Greeting["directory"] != want ||
		s.Greeting["user"] != "u" {
		t.Errorf("the greeting says %q", s.Greeting)
	}
	fingerprint := s.Must("", opensshd.Find(t, "ssh-keygen"), "-l", "-f",
		filepath.Join(home, ".config/usftp/host_ed25519_key"))
	if got, _, _ := strings.Cut(s.Greeting["host key"], " "); !strings.HasPrefix(got, "SHA256:") ||
		!strings.Contains(fingerprint, got) {
		t.Errorf("the greeting has the fingerprint %q, ssh-keygen %q", got, fingerprint)
	}
	info, err := os.Stat(filepath.Join(home, ".config/usftp/host_ed25519_key"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the host key's file: %v, %v", info.Mode(), err)
	}

	if out, err := s.SFTP("u", key, "put a b\nget b c\nls -l\n"); err != nil ||
		!strings.Contains(out, "b\n") {
		t.Errorf("%v\n%s", err, out)
	}
	scp := opensshd.Find(t, "scp")
	s.Must("", scp, s.SSHFlags("-O", "-i", key, "a", "u@127.0.0.1:d")...)
	s.Must("", scp, s.SSHFlags("-O", "-i", key, "u@127.0.0.1:d", "e")...)
	s.Must("", scp, s.SSHFlags("-s", "-i", key, "u@127.0.0.1:d", "f")...)
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	s.Must("", usftp, "cp", "-F", "none", "-P", s.Port, "-i", key, "-o",
		"UserKnownHostsFile="+s.KnownHosts(), "a", "u@127.0.0.1:g")
	for _, operands := range [][]string{{"a", "u@127.0.0.1:h"}, {"u@127.0.0.1:h", "i"}} {
		s.Must("", usftp, append([]string{"cp", "-O", "-F", "none", "-P", s.Port, "-i", key, "-o",
			"UserKnownHostsFile=" + s.KnownHosts()}, operands...)...)
	}
	servetest.Same(t, data, filepath.Join(dir, "b"), filepath.Join(home, "c"), filepath.Join(dir, "d"),
		filepath.Join(home, "e"), filepath.Join(home, "f"), filepath.Join(dir, "g"),
		filepath.Join(dir, "h"), filepath.Join(home, "i"))

	s.Wait("logged in", func(f map[string]any) bool {
		return f["user"] == "u" && strings.HasPrefix(f["remote"].(string), "127.0.0.1:")
	})
	for path, field := range map[string]string{"/b": "written", "/d": "read"} {
		line := s.Wait("file closed", func(f map[string]any) bool {
			return f["path"] == path &&
				f[field] == float64(len(data))
		})
		if rate, ok := line["bytes_per_second"].(float64); !ok || rate <= 0 {
			t.Errorf("no rate in %v", line)
		}
	}

	// Someone without any of the keys stays out; so does anyone with another user name.
	stranger := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	for _, who := range [][2]string{{"u", stranger}, {"v", key}} {
		if out, err := s.SFTP(who[0], who[1], "ls\n"); err == nil {
			t.Errorf("%s was let in with %s:\n%s", who[0], who[1], out)
		}
	}
	s.Wait("login failed", func(f map[string]any) bool {
		return f["user"] == "u" &&
			f["tried"] == "publickey"
	})
	s.Wait("login failed", func(f map[string]any) bool { return f["user"] == "v" })
	s.End(syscall.SIGINT, 0)

	again := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, dir)
	if again.Greeting["host key"] != s.Greeting["host key"] {
		t.Error("the server has another key after a restart")
	}
}

// Without keys there is a password, which the log does not contain.
func TestServePassword(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("content"))
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", dir)
	password, _, _ := strings.Cut(s.Greeting["password"], " ")
	if len(password) < 20 {
		t.Fatalf("the password is %q", password)
	}
	ask := filepath.Join(home, "ask")
	get := func(password, target string) error {
		t.Helper()
		if err := os.WriteFile(ask, []byte("#!/bin/sh\necho "+password+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("SSH_ASKPASS", ask)
		t.Setenv("SSH_ASKPASS_REQUIRE", "force")
		_, err := s.Client("", opensshd.Find(t, "sftp"),
			s.SSHFlags("-o", "NumberOfPasswordPrompts=1", "u@127.0.0.1:a", target)...)
		return err
	}
	if get("wrong", "b") == nil {
		t.Error("a wrong password let somebody in")
	}
	s.Wait("login attempt", func(f map[string]any) bool {
		return f["level"] == "WARN" &&
			f["user"] == "u"
	})
	if err := get(password, "c"); err != nil {
		t.Errorf("the password does not let in: %v\n%s", err, s.Log)
	}
	servetest.Same(t, []byte("content"), filepath.Join(home, "c"))
	if strings.Contains(s.Log.String(), password) {
		t.Error("the password is in the log")
	}
}

// A client that asks for a shell or a command is told what is served.
func TestServeTellsThatItServesFilesOnly(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", home)
	for _, command := range [][]string{nil, {"id"}} {
		flags := append(s.SSHFlags("-i", key, "u@127.0.0.1"), command...)
		flags[slices.Index(flags, "-P")] = "-p"
		out, err := s.Client("", opensshd.Find(t, "ssh"), flags...)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 ||
			!strings.Contains(out, "This server only serves files") {
			t.Errorf("%q: %v: %s", command, err, out)
		}
	}
}

func TestServeReadOnly(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("content"))
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", "--read-only", "--deny",
		"readlink,opendir", dir)
	if !strings.HasSuffix(s.Greeting["directory"], ", read only") ||
		!strings.HasSuffix(s.Greeting[""], " u@127.0.0.1:FILE .") {
		t.Errorf("the greeting says %q", s.Greeting)
	}
	if out, err := s.SFTP("u", key, "get a b\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	servetest.Same(t, []byte("content"), filepath.Join(home, "b"))
	for _, command := range []string{"put b c", "rm a", "mkdir d", "chmod 600 a", "rename a e"} {
		if out, err := s.SFTP("u", key, command+"\n"); err == nil {
			t.Errorf("%s works:\n%s", command, out)
		}
	}
	if out, _ := s.SFTP("u", key, "ls\n"); !strings.Contains(out, "Permission denied") {
		t.Errorf("what --deny refuses works:\n%s", out)
	}
	if out, err := s.Client("", opensshd.Find(t, "scp"),
		s.SSHFlags("-O", "-i", key, "b", "u@127.0.0.1:f")...); err == nil {
		t.Errorf("scp writes:\n%s", out)
	}
	for _, denied := range []map[string]any{
		{"request": "remove", "path": "/a", "by": "policy"},
		{"request": "open", "path": "/c", "by": "policy"},
		{"request": "opendir", "path": "/", "by": "policy",
			"error": "the operation is not allowed here"},
		{"request": "scp -t", "path": "f", "protocol": "scp", "error": "the server is read-only"},
	} {
		s.Wait("request denied", func(f map[string]any) bool {
			for key, value := range denied {
				if f[key] != value {
					return false
				}
			}
			return f["user"] == "u" && strings.HasPrefix(f["remote"].(string), "127.0.0.1:")
		})
	}
	unchanged(t, filepath.Join(dir, "a"), "content")
}
