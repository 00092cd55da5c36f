//go:build unix

package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// After SIGHUP new keys apply, and an unreadable configuration changes nothing.
func TestServeReload(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	other := opensshd.Keygen(t, filepath.Join(home, "other"))
	keys := filepath.Join(home, "keys")
	writeFile(t, keys, readFile(t, key+".pub"))
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", "--authorized-keys", keys,
		t.TempDir())
	in := func(who string, want bool) {
		t.Helper()
		if out, err := s.SFTP("u", who, "pwd\n"); (err == nil) != want {
			t.Errorf("%s is let in: %v, want %v\n%s", filepath.Base(who), err == nil, want, out)
		}
	}
	in(key, true)
	in(other, false)
	writeFile(t, keys, readFile(t, other+".pub"))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.Wait("reloaded", nil)
	in(key, false)
	in(other, true)
	writeFile(t, keys, []byte("nonsense\n"))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	line := s.Wait("reload failed; the old settings stay in effect", nil)
	if text := fmt.Sprint(line["error"]); !strings.Contains(text, keys+":1: no key") {
		t.Errorf("it says %q", text)
	}
	in(other, true)
}

// When the keys of the user's own file go away, SIGHUP does not replace them by a password that
// nobody is told.
func TestServeReloadWithoutKeys(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	keys := filepath.Join(home, ".ssh", "authorized_keys")
	if err := os.MkdirAll(filepath.Dir(keys), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, keys, readFile(t, key+".pub"))
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u",
		t.TempDir())
	writeFile(t, keys, nil)
	s.Cmd.Process.Signal(syscall.SIGHUP)
	line := s.Wait("reload failed; the old settings stay in effect", nil)
	if text := fmt.Sprint(line["error"]); !strings.Contains(text, "no usable key in "+keys) {
		t.Errorf("it says %q", text)
	}
	if out, err := s.SFTP("u", key, "pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// When keys come into the user's own file, SIGHUP lets them in, and the password that was printed
// stays valid.
func TestServeReloadWithPassword(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	keys := filepath.Join(home, ".ssh", "authorized_keys")
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u",
		t.TempDir())
	password, _, _ := strings.Cut(s.Greeting["password"], " ")
	in := func() error {
		conn, err := ssh.Dial("tcp", "127.0.0.1:"+s.Port, &ssh.ClientConfig{User: "u",
			Auth:            []ssh.AuthMethod{ssh.Password(password)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := in(); err != nil {
		t.Fatalf("the password: %v", err)
	}
	writeFile(t, keys, readFile(t, key+".pub"))
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.Wait("reloaded", nil)
	if out, err := s.SFTP("u", key, "pwd\n"); err != nil {
		t.Errorf("the key: %v\n%s", err, out)
	}
	if err := in(); err != nil {
		t.Errorf("the password, after a reload: %v", err)
	}
}

// session opens a session of OpenSSH's sftp that waits for commands.
func session(t *testing.T, s *servetest.Server, home, key string) (stdin io.WriteCloser,
	wait func() error) {
	t.Helper()
	cmd := exec.Command(opensshd.Find(t, "sftp"),
		s.SSHFlags("-i", key, "-b", "-", "u@127.0.0.1")...)
	cmd.Dir = home
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Process.Kill() })
	return in, cmd.Wait
}

// A server that is asked to stop lets sessions finish, and lets nobody new in.
func TestServeShutdown(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	dir, data := t.TempDir(), randomData(1<<20)
	writeFile(t, filepath.Join(home, "a"), data)
	s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", dir)
	in, wait := session(t, s, home, key)
	io.WriteString(in, "put a b\n")
	s.Wait("file closed", nil)
	s.Cmd.Process.Signal(syscall.SIGTERM)
	s.Wait("shutting down", nil)
	if out, err := s.SFTP("u", key, "pwd\n"); err == nil {
		t.Errorf("somebody was let in while the server ends:\n%s", out)
	}
	io.WriteString(in, "put a c\nquit\n")
	if err := wait(); err != nil {
		t.Errorf("the session that ran was not let end: %v", err)
	}
	<-s.Ended
	if code := s.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	servetest.Same(t, data, filepath.Join(dir, "b"), filepath.Join(dir, "c"))
}

// The grace period ends, and a second signal ends it earlier.
func TestServeShutdownAtOnce(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	writeFile(t, filepath.Join(home, "a"), []byte("a"))
	for _, c := range []struct {
		grace string
		twice bool
		code  int
	}{{"1ms", false, 0}, {"10m", true, 143}} {
		s := servetest.Start(t, home, "usftp serve", "--listen", servetest.Loopback, "--user", "u", "--grace", c.grace,
			t.TempDir())
		in, wait := session(t, s, home, key)
		io.WriteString(in, "put a b\n")
		s.Wait("file closed", nil)
		if c.twice {
			s.Cmd.Process.Signal(syscall.SIGTERM)
			s.Wait("shutting down", nil)
		}
		s.End(syscall.SIGTERM, c.code)
		io.WriteString(in, "put a c\n")
		in.Close()
		if wait() == nil {
			t.Error("the client did not notice that its session was cut off")
		}
	}
}
