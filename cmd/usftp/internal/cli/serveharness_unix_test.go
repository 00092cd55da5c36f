//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// served is a running `usftp serve`.
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
	s := &served{t: t, home: home, greeting: map[string]string{}, log: newLogLines(),
		ended: make(chan struct{})}
	// Not with the test's context, which ends before the server is asked to stop.
	ctx, cancel := context.WithTimeout(context.Background(), tooLong)
	t.Cleanup(cancel)
	s.cmd = exec.CommandContext(ctx, "usftp",
		append([]string{"serve", "--log-format", "json"}, args...)...)
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
	t.Cleanup(func() { s.End(syscall.SIGTERM, 0) })
	words := strings.Fields(s.greeting["connect with"])
	if len(words) < 3 {
		t.Fatalf("no greeting: %v\n%s", s.greeting, s.log)
	}
	s.port = words[2]
	return s
}

// End ends the server with a signal, once, and checks the exit code.
func (s *served) End(signal syscall.Signal, code int) {
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

// wait returns the first line with this message whose fields fulfil a condition, as soon as there
// is one.
func (s *served) wait(message string, is func(map[string]any) bool) map[string]any {
	s.t.Helper()
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for line := range bytes.Lines(l.text.Bytes()) {
			var fields map[string]any
			if json.Unmarshal(line, &fields) == nil && fields["msg"] == message &&
				(is == nil || is(fields)) {
				return fields
			}
		}
		if l.closed {
			s.t.Fatalf("no line %q in the log:\n%s", message, l.text.String())
		}
		l.change.Wait()
	}
}

// waitFor waits until there are count lines with this message.
func (s *served) waitFor(message string, count int) {
	s.t.Helper()
	times := map[any]bool{}
	s.wait(message, func(f map[string]any) bool {
		times[f["time"]] = true
		return len(times) == count
	})
}

// sshFlags returns flags for OpenSSH's clients.
func (s *served) sshFlags(more ...string) []string {
	return append([]string{"-F", "none", "-P", s.port, "-o", "StrictHostKeyChecking=yes", "-o",
		"UserKnownHostsFile=" + s.knownHosts(), "-o", "LogLevel=ERROR",
		"-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"}, more...)
}

// knownHosts returns a file with the key that the server has made.
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

// client runs a client in the home directory.
func (s *served) client(stdin, program string, args ...string) (output string, err error) {
	s.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = s.home
	cmd.Env = append(os.Environ(), "HOME="+s.home, "SSH_AUTH_SOCK=")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is client for commands that must succeed.
func (s *served) must(stdin, program string, args ...string) string {
	s.t.Helper()
	out, err := s.client(stdin, program, args...)
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s\nthe server's log:\n%s", program, args, err, out, s.log)
	}
	return out
}

// sftp runs OpenSSH's sftp with commands.
func (s *served) sftp(login, key, commands string) (string, error) {
	s.t.Helper()
	return s.client(commands, opensshd.Find(s.t, "sftp"),
		s.sshFlags("-i", key, "-b", "-", login+"@127.0.0.1")...)
}

// homeWithKey makes a home directory with a key that may log in there.
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
		t.Errorf("%s is not what was copied: %d bytes instead of %d, the first difference at %d",
			name, len(got), len(data), at)
	}
}
