//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A served directory: `usftp serve`, running.
type served struct {
	t        *testing.T
	cmd      *exec.Cmd
	home     string // of the server, and of the clients
	greeting map[string]string
	port     string
	log      *logLines
	ended    chan struct{}
}

// startServe runs the command until the test ends.
func startServe(t *testing.T, home string, args ...string) *served {
	t.Helper()
	s := &served{t: t, home: home, greeting: map[string]string{}, log: newLogLines(), ended: make(chan struct{})}
	// Not under the test's context, which ends before the server is asked to.
	ctx, cancel := context.WithTimeout(context.Background(), tooLong)
	t.Cleanup(cancel)
	s.cmd = exec.CommandContext(ctx, "usftp", append([]string{"serve", "--log-format", "json"}, args...)...)
	s.cmd.Dir = home
	s.cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
	s.cmd.Stderr = s.log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "  ")
		if _, ok := s.greeting[name]; !ok {
			s.greeting[name] = strings.TrimSpace(value)
		}
		if name == "" {
			break // the last line
		}
	}
	go func() {
		defer close(s.ended)
		io.Copy(io.Discard, stdout)
		s.cmd.Wait()
		s.log.Close()
	}()
	t.Cleanup(func() { s.end(syscall.SIGTERM, 0) })
	words := strings.Fields(s.greeting["connect with"])
	if len(words) < 3 {
		t.Fatalf("no greeting: %v\n%s", s.greeting, s.log)
	}
	s.port = words[2]
	return s
}

// end ends the server with a signal, once, and checks the exit code.
func (s *served) end(signal syscall.Signal, code int) {
	s.t.Helper()
	select {
	case <-s.ended:
		return
	default:
	}
	s.cmd.Process.Signal(signal)
	<-s.ended
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("serve has ended with %d, want %d:\n%s", got, code, s.log)
	}
}

// logLines collects JSON lines and lets tests wait for one.
type logLines struct {
	mu     sync.Mutex
	change *sync.Cond
	text   bytes.Buffer
	closed bool
}

func newLogLines() *logLines {
	l := &logLines{}
	l.change = sync.NewCond(&l.mu)
	return l
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change.Broadcast()
	return l.text.Write(p)
}

func (l *logLines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.change.Broadcast()
	return nil
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait gives the first line with this message whose fields fulfil a condition, as soon as there is one.
func (s *served) wait(message string, is func(map[string]any) bool) map[string]any {
	s.t.Helper()
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for line := range bytes.Lines(l.text.Bytes()) {
			var fields map[string]any
			if json.Unmarshal(line, &fields) == nil && fields["msg"] == message && (is == nil || is(fields)) {
				return fields
			}
		}
		if l.closed {
			s.t.Fatalf("no line %q in the log:\n%s", message, l.text.String())
		}
		l.change.Wait()
	}
}

// sshFlags are those of OpenSSH's clients.
func (s *served) sshFlags(more ...string) []string {
	return append([]string{"-F", "none", "-P", s.port, "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + s.knownHosts(), "-o", "LogLevel=ERROR",
		"-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"}, more...)
}

// knownHosts is a file with the key that the server has made.
func (s *served) knownHosts() string {
	s.t.Helper()
	key := filepath.Join(s.home, ".config", "usftp", "host_ed25519_key")
	public, err := exec.Command(opensshd.Find(s.t, "ssh-keygen"), "-y", "-f", key).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join(s.t.TempDir(), "known")
	writeFile(s.t, name, []byte("[127.0.0.1]:"+s.port+" "+string(public)))
	return name
}

// client runs a client in the home.
func (s *served) client(stdin, program string, args ...string) (output string, err error) {
	s.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = s.home
	cmd.Env = append(os.Environ(), "HOME="+s.home, "SSH_AUTH_SOCK=")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is client for what has to work.
func (s *served) must(stdin, program string, args ...string) string {
	s.t.Helper()
	out, err := s.client(stdin, program, args...)
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s\nthe server's log:\n%s", program, args, err, out, s.log)
	}
	return out
}

// sftp runs OpenSSH's sftp with commands; flags are further ones.
func (s *served) sftp(login, key, commands string) (string, error) {
	s.t.Helper()
	return s.client(commands, opensshd.Find(s.t, "sftp"), s.sshFlags("-i", key, "-b", "-", login+"@127.0.0.1")...)
}

// homeWithKey makes a home whose owner has a key that may log in there.
func homeWithKey(t *testing.T) (home, key string) {
	t.Helper()
	home = t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	key = opensshd.Keygen(t, filepath.Join(home, "id"))
	writeFile(t, filepath.Join(home, ".ssh", "authorized_keys"), readFile(t, key+".pub"))
	return home, key
}

const loopbackPort = "127.0.0.1:0"

func same(t *testing.T, data []byte, files ...string) {
	t.Helper()
	for _, name := range files {
		got := readFile(t, name)
		if bytes.Equal(got, data) {
			continue
		}
		at := 0
		for at < min(len(got), len(data)) && got[at] == data[at] {
			at++
		}
		t.Errorf("%s is not what was copied: %d bytes instead of %d, the first difference at %d", name, len(got), len(data), at)
	}
}

// One command, and everybody's clients can connect as it says.
func TestServe(t *testing.T) {
	home, key := homeWithKey(t)
	dir, data := t.TempDir(), randomData(3_000_001)
	writeFile(t, filepath.Join(home, "a"), data)
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", dir)
	if _, ok := s.greeting["password"]; ok {
		t.Error("there is a key, and a password was made nevertheless")
	}
	if want := dir + ", read and write"; s.greeting["directory"] != want || s.greeting["user"] != "u" {
		t.Errorf("the greeting says %q", s.greeting)
	}
	fingerprint := s.must("", opensshd.Find(t, "ssh-keygen"), "-l", "-f", filepath.Join(home, ".config/usftp/host_ed25519_key"))
	if got, _, _ := strings.Cut(s.greeting["host key"], " "); !strings.HasPrefix(got, "SHA256:") || !strings.Contains(fingerprint, got) {
		t.Errorf("the greeting has the fingerprint %q, ssh-keygen %q", got, fingerprint)
	}
	info, err := os.Stat(filepath.Join(home, ".config/usftp/host_ed25519_key"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the host key's file: %v, %v", info.Mode(), err)
	}

	if out, err := s.sftp("u", key, "put a b\nget b c\nls -l\n"); err != nil || !strings.Contains(out, "b\n") {
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
	s.must("", usftp, "cp", "-F", "none", "-P", s.port, "-i", key, "-o", "UserKnownHostsFile="+s.knownHosts(), "a", "u@127.0.0.1:g")
	same(t, data, filepath.Join(dir, "b"), filepath.Join(home, "c"), filepath.Join(dir, "d"), filepath.Join(home, "e"), filepath.Join(home, "f"), filepath.Join(dir, "g"))

	s.wait("logged in", func(f map[string]any) bool {
		return f["user"] == "u" && strings.HasPrefix(f["remote"].(string), "127.0.0.1:")
	})
	for path, field := range map[string]string{"/b": "written", "/d": "read"} {
		line := s.wait("file closed", func(f map[string]any) bool { return f["path"] == path && f[field] == float64(len(data)) })
		if rate, ok := line["bytes_per_second"].(float64); !ok || rate <= 0 {
			t.Errorf("no rate in %v", line)
		}
	}

	// Whoever has none of the keys stays out; so does everybody else under another name.
	stranger := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	for _, who := range [][2]string{{"u", stranger}, {"v", key}} {
		if out, err := s.sftp(who[0], who[1], "ls\n"); err == nil {
			t.Errorf("%s was let in with %s:\n%s", who[0], who[1], out)
		}
	}
	s.wait("login failed", nil)
	s.end(syscall.SIGINT, 0)

	again := startServe(t, home, "--listen", loopbackPort, dir)
	if again.greeting["host key"] != s.greeting["host key"] {
		t.Error("the server has another key after a restart")
	}
}

// Without keys there is a password, which is not in the log.
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
		_, err := s.client("", opensshd.Find(t, "sftp"), s.sshFlags("-o", "NumberOfPasswordPrompts=1", "u@127.0.0.1:a", target)...)
		return err
	}
	if get("wrong", "b") == nil {
		t.Error("a wrong password let somebody in")
	}
	s.wait("login attempt", func(f map[string]any) bool { return f["level"] == "WARN" && f["user"] == "u" })
	if err := get(password, "c"); err != nil {
		t.Errorf("the password does not let in: %v\n%s", err, s.log)
	}
	same(t, []byte("content"), filepath.Join(home, "c"))
	if strings.Contains(s.log.String(), password) {
		t.Error("the password is in the log")
	}
}

func TestServeReadOnly(t *testing.T) {
	home, key := homeWithKey(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a"), []byte("content"))
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", "--read-only", "--deny", "readlink,opendir", dir)
	if !strings.HasSuffix(s.greeting["directory"], ", read only") {
		t.Errorf("the greeting says %q", s.greeting["directory"])
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
	if out, err := s.client("", opensshd.Find(t, "scp"), s.sshFlags("-O", "-i", key, "b", "u@127.0.0.1:f")...); err == nil {
		t.Errorf("scp writes:\n%s", out)
	}
	unchanged(t, filepath.Join(dir, "a"), "content")
}

// SIGHUP: other keys hold, and what cannot be read leaves all as it was.
func TestServeReload(t *testing.T) {
	home, key := homeWithKey(t)
	other := opensshd.Keygen(t, filepath.Join(home, "other"))
	keys := filepath.Join(home, "keys")
	writeFile(t, keys, readFile(t, key+".pub"))
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", "--authorized-keys", keys, t.TempDir())
	in := func(who string, want bool) {
		t.Helper()
		if out, err := s.sftp("u", who, "pwd\n"); (err == nil) != want {
			t.Errorf("%s is let in: %v, want %v\n%s", filepath.Base(who), err == nil, want, out)
		}
	}
	in(key, true)
	in(other, false)
	writeFile(t, keys, readFile(t, other+".pub"))
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.wait("reloaded", nil)
	in(key, false)
	in(other, true)
	writeFile(t, keys, []byte("nonsense\n"))
	s.cmd.Process.Signal(syscall.SIGHUP)
	line := s.wait("not reloaded; everything stays as it was", nil)
	if text := fmt.Sprint(line["error"]); !strings.Contains(text, keys+":1: no key") {
		t.Errorf("it says %q", text)
	}
	in(other, true)
}

// session opens a session of OpenSSH's sftp that waits for commands.
func (s *served) session(key string) (stdin io.WriteCloser, wait func() error) {
	s.t.Helper()
	cmd := exec.Command(opensshd.Find(s.t, "sftp"), s.sshFlags("-i", key, "-b", "-", "u@127.0.0.1")...)
	cmd.Dir = s.home
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { in.Close(); cmd.Process.Kill() })
	return in, cmd.Wait
}

// A server that is asked to end lets sessions go on, and nobody new in.
func TestServeShutdown(t *testing.T) {
	home, key := homeWithKey(t)
	dir, data := t.TempDir(), randomData(1<<20)
	writeFile(t, filepath.Join(home, "a"), data)
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", dir)
	in, wait := s.session(key)
	io.WriteString(in, "put a b\n")
	s.wait("file closed", nil)
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.wait("shutting down", nil)
	if out, err := s.sftp("u", key, "pwd\n"); err == nil {
		t.Errorf("somebody was let in while the server ends:\n%s", out)
	}
	io.WriteString(in, "put a c\nquit\n")
	if err := wait(); err != nil {
		t.Errorf("the session that ran was not let end: %v", err)
	}
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	same(t, data, filepath.Join(dir, "b"), filepath.Join(dir, "c"))
}

// The time of grace ends, and a second signal ends it before.
func TestServeShutdownAtOnce(t *testing.T) {
	home, key := homeWithKey(t)
	writeFile(t, filepath.Join(home, "a"), []byte("a"))
	for _, c := range []struct {
		grace string
		twice bool
		code  int
	}{{"1ms", false, 0}, {"10m", true, 143}} {
		s := startServe(t, home, "--listen", loopbackPort, "--user", "u", "--grace", c.grace, t.TempDir())
		in, wait := s.session(key)
		io.WriteString(in, "put a b\n")
		s.wait("file closed", nil)
		if c.twice {
			s.cmd.Process.Signal(syscall.SIGTERM)
			s.wait("shutting down", nil)
		}
		s.end(syscall.SIGTERM, c.code)
		io.WriteString(in, "put a c\n")
		in.Close()
		if wait() == nil {
			t.Error("the client did not notice that its session was cut off")
		}
	}
}

func TestServeMetrics(t *testing.T) {
	home, key := homeWithKey(t)
	writeFile(t, filepath.Join(home, "a"), randomData(5000))
	s := startServe(t, home, "--listen", loopbackPort, "--user", "u", "--log-level", "quiet", "--metrics=:0", t.TempDir())
	url := s.greeting["metrics"]
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("metrics at %q", url)
	}
	if out, err := s.sftp("u", key, "put a b\nget b c\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stranger := opensshd.Keygen(t, filepath.Join(home, "stranger"))
	s.sftp("u", stranger, "pwd\n")
	want := regexp.MustCompile(`(?s)usftp_files_total\{protocol="sftp"\} 2\n.*usftp_logins_failed_total 1\n.*usftp_logins_total 1\n.*usftp_read_bytes_total 5000\n.*usftp_written_bytes_total 5000\n.*\ngo_goroutines \d`)
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

// sshd's Subsystem line, and OpenSSH's client.
func TestServeStdio(t *testing.T) {
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	start := func(flags string) (sftp func(commands string) (string, error), dir string) {
		t.Helper()
		dir = t.TempDir()
		sshd := opensshd.Start(t, opensshd.Options{Config: []string{"Subsystem sftp " + usftp + " serve --stdio " + strings.ReplaceAll(flags, "DIR", dir)}})
		return func(commands string) (string, error) {
			t.Helper()
			cmd := exec.Command(opensshd.Find(t, "sftp"), "-F", sshd.ConfigFile, "-b", "-", "testhost")
			cmd.Dir = dir
			cmd.Stdin = strings.NewReader(commands)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}, dir
	}
	data := randomData(2_000_003)
	sftp, dir := start("-d DIR -u 077 -P setstat,fsetstat -f AUTH -l INFO")
	writeFile(t, filepath.Join(dir, "a"), data)
	if out, err := sftp("put a b\nget b c\npwd\n"); err != nil || !strings.Contains(out, "directory: "+dir+"\n") {
		t.Errorf("%v\n%s", err, out)
	}
	same(t, data, filepath.Join(dir, "b"), filepath.Join(dir, "c"))
	if info, err := os.Stat(filepath.Join(dir, "b")); err != nil || info.Mode() != 0o600 {
		t.Errorf("with -u 077 a file gets the mode %v, %v", info.Mode(), err)
	}
	if out, err := sftp("chmod 644 b\n"); err == nil {
		t.Errorf("what -P refuses works:\n%s", out)
	}

	sftp, dir = start("-R -d DIR")
	writeFile(t, filepath.Join(dir, "a"), data)
	if out, err := sftp("get a b\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := sftp("put a c\n"); err == nil {
		t.Errorf("with -R a file is written:\n%s", out)
	}

	sftp, dir = start("-p realpath,stat,lstat -d DIR")
	writeFile(t, filepath.Join(dir, "a"), data)
	if out, err := sftp("pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := sftp("get a b\n"); err == nil {
		t.Errorf("what -p does not allow works:\n%s", out)
	}
}

// The log of --stdio goes nowhere unless it is asked for. (sshd drops what a subsystem says there, so this is without it.)
func TestServeStdioLog(t *testing.T) {
	for flags, want := range map[string]int{"": 0, " -e": 0, " -e -l INFO": 1, " -e -v": 1, " -e -l quiet": 0} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "a"), []byte("a"))
		cmd := exec.Command(opensshd.Find(t, "sftp"), "-b", "-", "-D", "usftp serve --stdio"+flags)
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader("get a b\n")
		out, err := cmd.CombinedOutput()
		if got := strings.Count(string(out), `msg="file closed"`); err != nil || got != want {
			t.Errorf("with%s: %v, %d lines of the log, want %d:\n%s", flags, err, got, want, out)
		}
	}
}

// writeConfig makes a configuration of two users with directories of their own, who have the key.
func writeConfig(t *testing.T, home, key, more string) (file, alice, bob string) {
	t.Helper()
	alice, bob = filepath.Join(home, "alice"), filepath.Join(home, "bob")
	for _, dir := range []string{alice, bob} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(home, "serve.toml")
	writeFile(t, file, []byte(`listen = ["127.0.0.1:0"]
`+more+`
[[users]]
name = "alice"
root = "alice"
authorized_keys = "id.pub"
quota_bytes = "1MB"
[[users]]
name = "bob"
root = "bob"
keys = ["`+strings.TrimSpace(string(readFile(t, key+".pub")))+`"]
read_only = true
`))
	return file, alice, bob
}

func TestServeConfig(t *testing.T) {
	home, key := homeWithKey(t)
	file, alice, bob := writeConfig(t, home, key, "")
	writeFile(t, filepath.Join(home, "big"), randomData(2_000_000))
	writeFile(t, filepath.Join(home, "small"), randomData(500_000))
	writeFile(t, filepath.Join(bob, "a"), []byte("bob's"))
	s := startServe(t, home, "--config", file)
	if s.greeting["users"] != "2" {
		t.Errorf("the greeting is %q", s.greeting)
	}
	if out, err := s.sftp("alice", key, "put small\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.sftp("alice", key, "put big\n"); err == nil || !strings.Contains(out, "quota exceeded") && !strings.Contains(out, "Failure") {
		t.Errorf("more than the quota goes in: %v\n%s", err, out)
	}
	if out, err := s.sftp("bob", key, "get a\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.sftp("bob", key, "put small\n"); err == nil {
		t.Errorf("bob writes:\n%s", out)
	}
	same(t, randomData(500_000), filepath.Join(alice, "small"))
	same(t, []byte("bob's"), filepath.Join(home, "a"))

	// A user who comes with SIGHUP, one who goes, and a mistake that changes nothing.
	text := string(readFile(t, file))
	writeFile(t, file, []byte(strings.ReplaceAll(text, `name = "alice"`, `name = "carol"`)))
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.wait("reloaded", nil)
	if out, err := s.sftp("carol", key, "ls -l small\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := s.sftp("alice", key, "pwd\n"); err == nil {
		t.Errorf("alice is still let in:\n%s", out)
	}
	writeFile(t, file, []byte(text+"mistake = 1\n"))
	s.cmd.Process.Signal(syscall.SIGHUP)
	line := s.wait("not reloaded; everything stays as it was", nil)
	if want := fmt.Sprintf(`%s:%d: there is no setting "users.mistake"`, file, strings.Count(text, "\n")+1); line["error"] != want {
		t.Errorf("the log says %q, want %q", line["error"], want)
	}
	if out, err := s.sftp("carol", key, "pwd\n"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// aliceOn logs in as alice on a connection, with a client of our own.
func aliceOn(t *testing.T, conn net.Conn, key string) *usftp.Client {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(readFile(t, key))
	if err != nil {
		t.Fatal(err)
	}
	secure, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{
		User: "alice", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	client, err := usftp.NewClient(ssh.NewClient(secure, channels, requests))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Behind a load balancer a client has the address that the balancer tells.
func TestServeBehindProxy(t *testing.T) {
	home, key := homeWithKey(t)
	file, alice, _ := writeConfig(t, home, key, `proxy_protocol = ["127.0.0.1"]`)
	writeFile(t, filepath.Join(alice, "a"), randomData(300_000))
	s := startServe(t, home, "--config", file)
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "PROXY TCP4 192.0.2.7 192.0.2.1 4711 22\r\n")
	client := aliceOn(t, conn, key)
	f, err := client.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := f.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), randomData(300_000)) {
		t.Errorf("%d bytes, %v", got.Len(), err)
	}
	client.Close()
	s.wait("logged in", func(f map[string]any) bool { return f["remote"] == "192.0.2.7:4711" })
	if out, err := s.sftp("alice", key, "pwd\n"); err == nil {
		t.Errorf("a balancer's connection without a header is served:\n%s", out)
	}
	s.wait("connection of a trusted proxy refused: no header of the PROXY protocol", nil)
}
