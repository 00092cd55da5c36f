//go:build unix

package cli

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// After one command, everybody's clients can connect as its output says.
func TestServe(t *testing.T) {
	t.Parallel()
	home, key := homeWithKey(t)
	dir, data := t.TempDir(), randomData(3_000_001)
	writeFile(t, filepath.Join(home, "a"), data)
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", dir)
	if _, ok := s.greeting["password"]; ok {
		t.Error("there is a key, and a password was made nevertheless")
	}
	if want := dir + ", read and write"; s.greeting["directory"] != want ||
		s.greeting["user"] != "u" {
		t.Errorf("the greeting says %q", s.greeting)
	}
	fingerprint := s.must("", opensshd.Find(t, "ssh-keygen"), "-l", "-f",
		filepath.Join(home, ".config/usftp/host_ed25519_key"))
	if got, _, _ := strings.Cut(s.greeting["host key"], " "); !strings.HasPrefix(got, "SHA256:") ||
		!strings.Contains(fingerprint, got) {
		t.Errorf("the greeting has the fingerprint %q, ssh-keygen %q", got, fingerprint)
	}
	info, err := os.Stat(filepath.Join(home, ".config/usftp/host_ed25519_key"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the host key's file: %v, %v", info.Mode(), err)
	}

	if out, err := s.sftp("u", key, "put a b\nget b c\nls -l\n"); err != nil ||
		!strings.Contains(out, "b\n") {
		t.Errorf("%v\n%s", err, out)
	}
	scp := opensshd.Find(t, "scp")
	s.must("", scp, s.sshFlags("-O", "-i", key, "a", "u@127.0.0.1:d")...)
	s.must("", scp, s.sshFlags("-O", "-i", key, "u@127.0.0.1:d", "e")...)
	s.must("", scp, s.sshFlags("-s", "-i", key, "u@127.0.0.1:d", "f")...)
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	s.must("", usftp, "cp", "-F", "none", "-P", s.port, "-i", key, "-o",
		"UserKnownHostsFile="+s.knownHosts(), "a", "u@127.0.0.1:g")
	same(t, data, filepath.Join(dir, "b"), filepath.Join(home, "c"), filepath.Join(dir, "d"),
		filepath.Join(home, "e"), filepath.Join(home, "f"), filepath.Join(dir, "g"))

	s.wait("logged in", func(f map[string]any) bool {
		return f["user"] == "u" && strings.HasPrefix(f["remote"].(string), "127.0.0.1:")
	})
	for path, field := range map[string]string{"/b": "written", "/d": "read"} {
		line := s.wait("file closed", func(f map[string]any) bool {
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
		if out, err := s.sftp(who[0], who[1], "ls\n"); err == nil {
			t.Errorf("%s was let in with %s:\n%s", who[0], who[1], out)
		}
	}
	s.wait("login failed", func(f map[string]any) bool {
		return f["user"] == "u" &&
			f["tried"] == "publickey"
	})
	s.wait("login failed", func(f map[string]any) bool { return f["user"] == "v" })
	s.End(syscall.SIGINT, 0)

	again := startServe(t, home, "--listen", loopbackPort, dir)
	if again.greeting["host key"] != s.greeting["host key"] {
		t.Error("the server has another key after a restart")
	}
}

// Without keys there is a password, which the log does not contain.
func TestServePassword(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("content"))
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", dir)
	password, _, _ := strings.Cut(s.greeting["password"], " ")
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
		_, err := s.client("", opensshd.Find(t, "sftp"),
			s.sshFlags("-o", "NumberOfPasswordPrompts=1", "u@127.0.0.1:a", target)...)
		return err
	}
	if get("wrong", "b") == nil {
		t.Error("a wrong password let somebody in")
	}
	s.wait("login attempt", func(f map[string]any) bool {
		return f["level"] == "WARN" &&
			f["user"] == "u"
	})
	if err := get(password, "c"); err != nil {
		t.Errorf("the password does not let in: %v\n%s", err, s.log)
	}
	same(t, []byte("content"), filepath.Join(home, "c"))
	if strings.Contains(s.log.String(), password) {
		t.Error("the password is in the log")
	}
}

// A client that asks for a shell or a command is told what is served.
func TestServeTellsThatItServesFilesOnly(t *testing.T) {
	t.Parallel()
	home, key := homeWithKey(t)
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", home)
	for _, command := range [][]string{nil, {"id"}} {
		flags := append(s.sshFlags("-i", key, "u@127.0.0.1"), command...)
		flags[slices.Index(flags, "-P")] = "-p"
		out, err := s.client("", opensshd.Find(t, "ssh"), flags...)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 ||
			!strings.Contains(out, "This server only serves files") {
			t.Errorf("%q: %v: %s", command, err, out)
		}
	}
}

func TestServeReadOnly(t *testing.T) {
	t.Parallel()
	home, key := homeWithKey(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("content"))
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", "--read-only", "--deny",
		"readlink,opendir", dir)
	if !strings.HasSuffix(s.greeting["directory"], ", read only") ||
		!strings.HasSuffix(s.greeting[""], " u@127.0.0.1:FILE .") {
		t.Errorf("the greeting says %q", s.greeting)
	}
	if out, err := s.sftp("u", key, "get a b\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	same(t, []byte("content"), filepath.Join(home, "b"))
	for _, command := range []string{"put b c", "rm a", "mkdir d", "chmod 600 a", "rename a e"} {
		if out, err := s.sftp("u", key, command+"\n"); err == nil {
			t.Errorf("%s works:\n%s", command, out)
		}
	}
	if out, _ := s.sftp("u", key, "ls\n"); !strings.Contains(out, "Permission denied") {
		t.Errorf("what --deny refuses works:\n%s", out)
	}
	if out, err := s.client("", opensshd.Find(t, "scp"),
		s.sshFlags("-O", "-i", key, "b", "u@127.0.0.1:f")...); err == nil {
		t.Errorf("scp writes:\n%s", out)
	}
	for _, denied := range []map[string]any{
		{"request": "remove", "path": "/a", "by": "policy"},
		{"request": "open", "path": "/c", "by": "policy"},
		{"request": "opendir", "path": "/", "by": "policy",
			"error": "the operation is not allowed here"},
		{"request": "scp -t", "path": "f", "protocol": "scp", "error": "the server is read-only"},
	} {
		s.wait("request denied", func(f map[string]any) bool {
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

func TestServeMetrics(t *testing.T) {
	t.Parallel()
	home, key := homeWithKey(t)
	writeFile(t, filepath.Join(home, "a"), randomData(5000))
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", "--log-level", "quiet",
		"--metrics=:0", "--deny", "mkdir", t.TempDir())
	url := s.greeting["metrics"]
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("metrics at %q", url)
	}
	if out, err := s.sftp("u", key, "put a b\nget b c\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stranger := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	s.sftp("u", stranger, "pwd\n")
	s.sftp("u", key, "mkdir d\n") // denied
	want := regexp.MustCompile(
		`(?s)usftp_files_total\{protocol="sftp"\} 2\n.*usftp_logins_failed_total 1\n.*usftp_logins_total 2\n.*usftp_read_bytes_total 5000\n.*usftp_requests_denied_total 1\n.*usftp_written_bytes_total 5000\n.*\ngo_goroutines \d`)
	for began := time.Now(); ; { // the client is gone before the server has counted
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 {
			t.Fatalf("%s, %v", response.Status, err)
		}
		if want.Match(text) {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the metrics are\n%s", text)
		}
	}
	if s.log.String() != "" {
		t.Errorf("the log is to be quiet:\n%s", s.log)
	}
}
