//go:build unix

// Package servetest runs usftp serve and usftpd for tests, with OpenSSH's clients.
package servetest

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
	"time"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// Server is a running server.
type Server struct {
	Cmd      *exec.Cmd
	Greeting map[string]string // what it printed, by the words in front
	Port     string
	Log      *Log
	Ended    chan struct{}

	t    *testing.T
	home string // of the server, and of the clients
}

// Start runs a server until the test ends: a program, such as "usftp serve", and its arguments. If
// the test fails, it shows the server's log.
func Start(t *testing.T, home, program string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, home: home, Greeting: map[string]string{}, Log: newLog(),
		Ended: make(chan struct{})}
	// Not with the test's context, which ends before the server is asked to stop. A server that
	// does not stop is killed in time for the test to say so, and no other one is.
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	if end, ok := t.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Minute))
		t.Cleanup(cancel)
	}
	words := strings.Fields(program + " --log-format json")
	s.Cmd = exec.CommandContext(ctx, words[0], append(words[1:], args...)...)
	s.Cmd.Dir = home
	s.Cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
	s.Cmd.Stderr = s.Log
	stdout, err := s.Cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "  ")
		if _, ok := s.Greeting[name]; !ok {
			s.Greeting[name] = strings.TrimSpace(value)
		}
		if name == "" {
			break // the last line
		}
	}
	go func() {
		defer close(s.Ended)
		io.Copy(io.Discard, stdout)
		s.Cmd.Wait()
		s.Log.Close()
	}()
	t.Cleanup(func() {
		s.End(syscall.SIGTERM, 0)
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.Log)
		}
	})
	words = strings.Fields(s.Greeting["connect with"])
	if len(words) < 3 {
		t.Fatalf("no greeting: %v", s.Greeting)
	}
	s.Port = words[2]
	return s
}

// End ends the server with a signal, once, and checks the exit code.
func (s *Server) End(signal syscall.Signal, code int) {
	s.t.Helper()
	select {
	case <-s.Ended:
		return
	default:
	}
	s.Cmd.Process.Signal(signal)
	<-s.Ended
	if got := s.Cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("serve has ended with %d, want %d", got, code)
	}
}

// Log collects JSON lines and lets tests wait for one.
type Log struct {
	mu     sync.Mutex
	change *sync.Cond
	text   bytes.Buffer
	closed bool
}

func newLog() *Log {
	l := &Log{}
	l.change = sync.NewCond(&l.mu)
	return l
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change.Broadcast()
	return l.text.Write(p)
}

func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.change.Broadcast()
	return nil
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tooLong is how long Wait waits before the test fails.
const tooLong = 5 * time.Minute

// Wait returns the first line with this message whose fields fulfil a condition, as soon as there
// is one.
func (s *Server) Wait(message string, is func(map[string]any) bool) map[string]any {
	s.t.Helper()
	l, began := s.Log, time.Now()
	defer time.AfterFunc(tooLong, l.change.Broadcast).Stop()
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
		if l.closed || time.Since(began) >= tooLong {
			s.t.Fatalf("no line %q in the log", message)
		}
		l.change.Wait()
	}
}

// WaitFor waits until there are count lines with this message.
func (s *Server) WaitFor(message string, count int) {
	s.t.Helper()
	times := map[any]bool{}
	s.Wait(message, func(f map[string]any) bool {
		times[f["time"]] = true
		return len(times) == count
	})
}

// SSHFlags returns flags for OpenSSH's clients.
func (s *Server) SSHFlags(more ...string) []string {
	return append([]string{"-F", "none", "-P", s.Port, "-o", "StrictHostKeyChecking=yes", "-o",
		"UserKnownHostsFile=" + s.KnownHosts(), "-o", "LogLevel=ERROR",
		"-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"}, more...)
}

// KnownHosts returns a file with the key that the server has made.
func (s *Server) KnownHosts() string {
	s.t.Helper()
	key := filepath.Join(s.home, ".config", "usftp", "host_ed25519_key")
	public, err := exec.Command(opensshd.Find(s.t, "ssh-keygen"), "-y", "-f", key).Output()
	if err != nil {
		s.t.Fatal(err)
	}
	name := filepath.Join(s.t.TempDir(), "known")
	WriteFile(s.t, name, []byte("[127.0.0.1]:"+s.Port+" "+string(public)))
	return name
}

// Client runs a client in the home directory.
func (s *Server) Client(stdin, program string, args ...string) (output string, err error) {
	s.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = s.home
	cmd.Env = append(os.Environ(), "HOME="+s.home, "SSH_AUTH_SOCK=")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must is client for commands that must succeed.
func (s *Server) Must(stdin, program string, args ...string) string {
	s.t.Helper()
	out, err := s.Client(stdin, program, args...)
	if err != nil {
		s.t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return out
}

// SFTP runs OpenSSH's sftp with commands.
func (s *Server) SFTP(login, key, commands string) (string, error) {
	s.t.Helper()
	return s.Client(commands, opensshd.Find(s.t, "sftp"),
		s.SSHFlags("-i", key, "-b", "-", login+"@127.0.0.1")...)
}

// HomeWithKey makes a home directory with a key that may log in there.
func HomeWithKey(t *testing.T) (home, key string) {
	t.Helper()
	home = t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	key = opensshd.Keygen(t, filepath.Join(home, "id"))
	WriteFile(t, filepath.Join(home, ".ssh", "authorized_keys"), ReadFile(t, key+".pub"))
	return home, key
}

// Loopback is an address with any free port.
const Loopback = "127.0.0.1:0"

// Same checks the contents of files.
func Same(t *testing.T, data []byte, files ...string) {
	t.Helper()
	for _, name := range files {
		got := ReadFile(t, name)
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
