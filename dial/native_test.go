//go:build unix

package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/sftptest/opensshd"
)

func TestNative(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	var streams []*Stream
	for range 3 {
		s := open(t, conn)
		if s.Window() != 2<<20 || s.Host() != srv.Alias || s.Conn() != conn {
			t.Errorf("stream: window %d, host %q", s.Window(), s.Host())
		}
		streams = append(streams, s)
	}
	if err := conn.Keepalive(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if v := conn.ServerVersion(); !strings.HasPrefix(v, "SSH-2.0-OpenSSH") {
		t.Errorf("the server's version is %q", v)
	}
	if a := conn.SSH().Conn.(ssh.AlgorithmsConnMetadata).Algorithms(); hasAES() && a.Read.Cipher != ssh.CipherAES128GCM {
		t.Errorf("the cipher is %s", a.Read.Cipher)
	}
	// The end of one stream is that of its program, and of nothing else.
	streams[0].Close()
	if _, err := io.Copy(io.Discard, streams[0]); err != nil {
		t.Errorf("reading a closed stream: %v", err)
	}
	if _, err := streams[0].Write([]byte{1}); err == nil {
		t.Error("writing to a closed stream succeeded")
	}
	open(t, conn)
	conn.Close()
	if conn.Close() != nil {
		t.Error("a second Close fails")
	}
	if _, err := io.Copy(io.Discard, streams[1]); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading a stream of a closed connection: %v", err)
	}
	if !errors.Is(conn.Err(), ErrClosed) {
		t.Errorf("the connection ended with %v", conn.Err())
	}
	none(t)
}

// TestPackets sends packets of all sizes around those at which a packet's two writes
// are joined, and expects the same bytes back, through key exchanges.
func TestPackets(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	for _, cipher := range []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr"} {
		conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Ciphers: cipher, Options: []string{"RekeyLimit=1M"}})
		session, err := conn.SSH().NewSession()
		if err != nil {
			t.Fatal(err)
		}
		in, err := session.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Start("cat"); err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for n := 3990; n < 4130; n++ {
			sizes = append(sizes, n)
		}
		sizes = append(sizes, 1, 32<<10, 1<<20, 8180, 8192, 100_000, 3<<20)
		for i, n := range sizes {
			sent := make([]byte, n)
			for j := range sent {
				sent[j] = byte(i + j*7)
			}
			go in.Write(sent)
			got := make([]byte, n)
			if _, err := io.ReadFull(out, got); err != nil || string(got) != string(sent) {
				t.Fatalf("%s: %d bytes did not come back: %v", cipher, n, err)
			}
		}
		conn.Close()
	}
	none(t)
}

// TestIdle: a connection that waits holds no read buffer.
func TestIdle(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	open(t, conn)
	if err := conn.Keepalive(testContext(t)); err != nil {
		t.Fatal(err)
	}
	// What was heard has been read: the answer to the keepalive was the last of it.
	var before, after runtime.MemStats
	var conns []*Conn
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 8
	for range n {
		c := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
		open(t, c)
		conns = append(conns, c)
	}
	runtime.GC()
	runtime.GC() // pools let go at the second
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / n; each > 200<<10 {
		t.Errorf("an idle connection with a stream holds %d KiB", each>>10)
	} else {
		t.Logf("an idle connection with a stream holds %d KiB", each>>10)
	}
	runtime.KeepAlive(conns)
}

func TestManyStreams(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 2"}})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	open(t, conn)
	open(t, conn)
	_, err := conn.Open(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "opens no further channel") {
		t.Errorf("beyond MaxSessions: %v", err)
	}
}

func TestNoSubsystem(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"Subsystem sftp /nonexistent/sftp-server"}})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	s, err := conn.Open(testContext(t))
	var sub *SubsystemError
	if errors.As(err, &sub) {
		return // refused outright
	}
	if err != nil {
		t.Fatal(err)
	}
	// It was started, and ends: that shows in the stream's end and status.
	if _, err := io.ReadAll(s); err != nil {
		t.Error(err)
	}
	// Its standard error sshd keeps to itself.
	if status, ok := s.ExitStatus(); !ok || status == 0 {
		t.Errorf("the exit status is %d, %v", status, ok)
	}
}

// startAgent runs a real ssh-agent that holds the given keys.
func startAgent(t testing.TB, keys ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(opensshd.Find(t, "ssh-agent"), "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	// It listens before it prints its variables.
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		add := exec.Command(opensshd.Find(t, "ssh-add"), "-q", key)
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
		if out, err := add.CombinedOutput(); err != nil {
			t.Fatalf("ssh-add %s: %v: %s", key, err, out)
		}
	}
	return socket
}

func allow(t testing.TB, srv *opensshd.Server, publicFile, options string) {
	t.Helper()
	line, err := os.ReadFile(publicFile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(srv.AuthorizedKeys, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "%s%s", options, line)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestKeys(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
	}{
		{"ed25519", []string{"-t", "ed25519"}},
		{"rsa", []string{"-t", "rsa", "-b", "2048"}},
		{"ecdsa", []string{"-t", "ecdsa"}},
		{"pem", []string{"-t", "rsa", "-b", "2048", "-m", "PEM"}},
		{"locked", []string{"-t", "ed25519", "-N", "phrase", "-a", "1"}},
		{"lockedpem", []string{"-t", "ecdsa", "-m", "PEM", "-N", "phrase"}},
		{"lockedpem without .pub", []string{"-t", "ecdsa", "-m", "PEM", "-N", "phrase"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := opensshd.Keygen(t, filepath.Join(dir, strings.ReplaceAll(c.name, " ", "_")), c.args...)
			allow(t, srv, key+".pub", "")
			if strings.Contains(c.name, "without") {
				os.Remove(key + ".pub")
			}
			p := &script{answers: []string{"phrase"}}
			d, err := New(testContext(t), Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Prompter: p, Options: []string{"IdentityFile=" + key}})
			if err != nil {
				t.Fatal(err)
			}
			d.s.identities = d.s.identities[:1] // not the server's own
			dialTwice(t, d)
			want := 0
			if strings.Contains(c.name, "locked") {
				want = 1
			}
			if len(p.asked) != want {
				t.Errorf("asked %+v", p.asked)
			}
		})
	}
}

func TestAgent(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	rsa, other := opensshd.Keygen(t, filepath.Join(dir, "rsa"), "-t", "rsa", "-b", "2048"), opensshd.Keygen(t, filepath.Join(dir, "other"))
	allow(t, srv, rsa+".pub", "")
	socket := startAgent(t, other, rsa)
	conf := writeFile(t, filepath.Join(dir, "conf"), fmt.Sprintf("HostName %s\nPort %d\nUser %s\nUserKnownHostsFile %s\nIdentityAgent %s\nIdentityFile %s/nothing\n", srv.Host, srv.Port, srv.User, srv.KnownHosts, socket, dir))
	d, err := New(testContext(t), Target{Host: "x"}, &Config{ConfigFile: conf})
	if err != nil {
		t.Fatal(err)
	}
	dialTwice(t, d)
	if n := strings.Count(srv.Log(), "Failed publickey"); n != 0 {
		t.Errorf("%d failed publickey", n)
	}
	// IdentitiesOnly lets the agent serve just what is named, if only by its public half.
	os.Remove(rsa)
	for _, c := range []struct {
		identity string
		ok       bool
	}{{rsa, true}, {rsa + ".pub", true}, {other, false}} {
		d, err := New(testContext(t), Target{Host: "x"}, &Config{ConfigFile: conf, Identities: []string{rsa + ".pub"}, Options: []string{"IdentitiesOnly=yes"}})
		if err != nil {
			t.Fatal(err)
		}
		d.s.identities = []identityFile{{c.identity, true}}
		conn, err := d.Dial(testContext(t))
		if (err == nil) != c.ok {
			t.Errorf("IdentitiesOnly with %s: %v", c.identity, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	err = dialError(t, Target{Host: "x"}, &Config{ConfigFile: conf, Options: []string{"IdentityAgent=none"}})
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Tried) != 0 || !strings.Contains(err.Error(), "tried nothing") || !strings.Contains(err.Error(), "nothing: no such file") {
		t.Errorf("without agent and keys: %v", err)
	}
	none(t)
}

func TestUserCertificate(t *testing.T) {
	dir := t.TempDir()
	ca := opensshd.Keygen(t, filepath.Join(dir, "ca"))
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"TrustedUserCAKeys " + ca + ".pub"}})
	for _, kind := range []string{"ed25519", "rsa"} {
		key := opensshd.Keygen(t, filepath.Join(dir, kind), "-t", kind)
		if out, err := exec.Command(opensshd.Find(t, "ssh-keygen"), "-q", "-s", ca, "-I", "me", "-n", srv.User, "-V", "+1h", key+".pub").CombinedOutput(); err != nil {
			t.Fatalf("signing: %v: %s", err, out)
		}
		base := Config{ConfigFile: srv.ConfigFile, Options: []string{"IdentityFile=" + key}}
		login := func(name string, c Config) {
			t.Helper()
			d, err := New(testContext(t), Target{Host: srv.Alias}, &c)
			if err != nil {
				t.Fatal(err)
			}
			d.s.identities = d.s.identities[:1]
			conn, err := d.Dial(testContext(t))
			if err != nil {
				t.Errorf("%s, %s: %v", kind, name, err)
				return
			}
			open(t, conn)
			conn.Close()
		}
		login("beside the key", base)
		moved := filepath.Join(dir, kind+".cert")
		if err := os.Rename(key+"-cert.pub", moved); err != nil {
			t.Fatal(err)
		}
		named := base
		named.Options = append(named.Options, "CertificateFile="+moved)
		login("by CertificateFile", named)
		named.Options = append(named.Options, "IdentityAgent="+startAgent(t, key))
		os.Remove(key)
		login("with the key in an agent", named)
	}
}

func TestHostCertificateOnTheWire(t *testing.T) {
	dir := t.TempDir()
	ca := opensshd.Keygen(t, filepath.Join(dir, "ca"))
	key := opensshd.Keygen(t, filepath.Join(dir, "host"))
	if out, err := exec.Command(opensshd.Find(t, "ssh-keygen"), "-q", "-s", ca, "-I", "h", "-h", "-n", "127.0.0.1", key+".pub").CombinedOutput(); err != nil {
		t.Fatalf("signing: %v: %s", err, out)
	}
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true, Config: []string{"HostKey " + key, "HostCertificate " + key + "-cert.pub"}})
	line, err := os.ReadFile(ca + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, srv.KnownHosts, "@cert-authority 127.0.0.* "+string(line))
	open(t, connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile}))
	writeFile(t, srv.KnownHosts, "@cert-authority 127.0.0.* "+string(line)+"@revoked * "+string(line))
	var bad *HostKeyError
	if err := dialError(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile}); !errors.As(err, &bad) || bad.Problem != HostKeyRevoked {
		t.Errorf("with a revoked authority: %v", err)
	}
}

// TestKnownTypeFirst: of a server's keys the one that is known must be asked for, or it
// would look like a changed one.
func TestKnownTypeFirst(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{HostKeyTypes: []string{"ed25519", "ecdsa", "rsa"}})
	for i, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		line, err := os.ReadFile(srv.HostKeys[i] + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, srv.KnownHosts, fmt.Sprintf("[%s]:%d %s", srv.Host, srv.Port, line))
		conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
		if a := conn.SSH().Conn.(ssh.AlgorithmsConnMetadata).Algorithms(); !strings.Contains(a.HostKey, kind) {
			t.Errorf("with a known %s key the server showed %s", kind, a.HostKey)
		}
		conn.Close()
	}
}

func TestAcceptNewOnTheWire(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true})
	strict := func(v string) *Config {
		return &Config{ConfigFile: srv.ConfigFile, Options: []string{"StrictHostKeyChecking=" + v, "HashKnownHosts=yes"}}
	}
	var bad *HostKeyError
	if err := dialError(t, Target{Host: srv.Alias}, strict("ask")); !errors.As(err, &bad) || bad.Problem != HostKeyUnknown {
		t.Errorf("an unknown key: %v", err)
	}
	connect(t, Target{Host: srv.Alias}, strict("accept-new")).Close()
	connect(t, Target{Host: srv.Alias}, strict("yes")).Close()
	// OpenSSH's client agrees with what was written.
	cmd := exec.Command(opensshd.Find(t, "ssh"), "-F", srv.ConfigFile, "-o", "StrictHostKeyChecking=yes", srv.Alias, "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("ssh: %v: %s", err, out)
	}
}

// chain makes the configuration for servers of which each is reached through the last.
func chain(t testing.TB, servers ...*opensshd.Server) string {
	var text strings.Builder
	for i, s := range servers {
		text.WriteString(s.ClientBlock())
		if i > 0 {
			fmt.Fprintf(&text, "\tProxyJump %s\n", servers[i-1].Alias)
		}
	}
	return writeFile(t, filepath.Join(t.TempDir(), "chain"), text.String())
}

func TestJump(t *testing.T) {
	a := opensshd.Start(t, opensshd.Options{Alias: "a"})
	b := opensshd.Start(t, opensshd.Options{Alias: "b"})
	c := opensshd.Start(t, opensshd.Options{Alias: "c"})
	conf := chain(t, a, b, c)
	conn := connect(t, Target{Host: "c"}, &Config{ConfigFile: conf})
	open(t, conn)
	open(t, conn)
	for _, s := range []*opensshd.Server{a, b, c} {
		if n := strings.Count(s.Log(), "Accepted publickey"); n != 1 {
			t.Errorf("%s saw %d logins", s.Alias, n)
		}
	}
	conn.Close()
	none(t)
	flat := writeFile(t, filepath.Join(t.TempDir(), "flat"), a.ClientBlock()+b.ClientBlock()+c.ClientBlock())
	conn = connect(t, Target{Host: "c"}, &Config{ConfigFile: flat, Jump: fmt.Sprintf("a,%s@b:%d", b.User, b.Port)})
	open(t, conn)
	conn.Close()

	// Which hop failed is named.
	writeFile(t, b.KnownHosts, "")
	err := dialError(t, Target{Host: "c"}, &Config{ConfigFile: conf})
	var jump *JumpError
	var key *HostKeyError
	if !errors.As(err, &jump) || jump.Hop != "b" || !errors.As(err, &key) || !strings.HasPrefix(err.Error(), "c: jump host b: the host key of ") {
		t.Errorf("a hop with an unknown key: %v", err)
	}
	l, lerr := net.Listen("tcp", "127.0.0.1:0")
	if lerr != nil {
		t.Fatal(lerr)
	}
	nobody := l.Addr().(*net.TCPAddr).Port
	l.Close()
	err = dialError(t, Target{Host: "127.0.0.1", Port: nobody}, &Config{ConfigFile: conf, Jump: "a"})
	if !errors.As(err, &jump) || jump.Hop != "a" || !strings.Contains(err.Error(), fmt.Sprintf("jump host a: it cannot reach 127.0.0.1:%d", nobody)) {
		t.Errorf("a target that refuses its jump host: %v", err)
	}
	none(t)
}

// TestSilentBehindJump: a server that says nothing, behind a jump host, ends with the
// context and with ConnectTimeout.
func TestSilentBehindJump(t *testing.T) {
	a := opensshd.Start(t, opensshd.Options{Alias: "a"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	target, config := Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}, &Config{ConfigFile: a.ConfigFile, Jump: "a"}
	d, err := New(testContext(t), target, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		defer (<-accepted).Close()
		cancel()
	}()
	if _, err := d.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	config.Options = []string{"ConnectTimeout=1"}
	if err := dialError(t, target, config); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 1s") {
		t.Errorf("timed out: %v", err)
	}
	(<-accepted).Close()
	l.Close()
	none(t)
}

func TestJumpLoop(t *testing.T) {
	for _, env := range [][]string{nil, withoutSSH(t.TempDir())} {
		_, err := New(testContext(t), Target{Host: "x"}, &Config{ConfigFile: writeFile(t, filepath.Join(t.TempDir(), "c"), "Host *\n ProxyJump y\n"), Env: env})
		if err == nil || !strings.Contains(err.Error(), "loop") && !strings.Contains(err.Error(), "through itself") {
			t.Errorf("a jump host that jumps through itself: %v", err)
		}
	}
}

func TestParseHop(t *testing.T) {
	for in, want := range map[string]Target{
		"h": {Host: "h"}, "u@h": {User: "u", Host: "h"}, "u@h:22": {User: "u", Host: "h", Port: 22}, "[::1]:5": {Host: "::1", Port: 5},
		"::1": {Host: "::1"}, "[::1]": {Host: "::1"}, "ssh://u@h:7": {User: "u", Host: "h", Port: 7},
	} {
		if got, err := parseHop(in); err != nil || got != want {
			t.Errorf("parseHop(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-x", "h:0", "h:x", "a b"} {
		if got, err := parseHop(in); err == nil {
			t.Errorf("parseHop(%q) = %+v", in, got)
		}
	}
}

// alive tells whether a process is there and no zombie.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestProxyCommand(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	proxy := fmt.Sprintf("ProxyCommand=%s -F %s -W %%h:%%p %s", opensshd.Find(t, "ssh"), srv.ConfigFile, srv.Alias)
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Options: []string{proxy}})
	open(t, conn)
	pid := conn.way.proxy.cmd.Process.Pid
	if !alive(pid) {
		t.Fatal("the command is not there")
	}
	conn.Close()
	if alive(pid) {
		t.Error("the command outlived its connection")
	}
	none(t)

	for _, c := range []struct{ command, says string }{
		{"echo some reason >&2; exit 3", "the ProxyCommand ended (exit status 3): some reason"},
		{"/nonexistent/command", "the ProxyCommand ended (exit status 127)"},
		{"echo hello; exit 0", `something else than SSH: "hello"`},
	} {
		err := dialError(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Options: []string{"ProxyCommand=sh -c '" + c.command + "'"}})
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.command, err)
		}
	}
	// One that ignores its end is killed, and Close still takes bounded time.
	ctx, cancel := context.WithCancel(testContext(t))
	d, err := New(ctx, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Options: []string{"ProxyCommand=sh -c 'trap \"\" TERM HUP PIPE; echo up >&2; while :; do sleep 0.1; done'"},
		Logger: slog.New(&lineHandler{on: "up", do: func() { cancel() }})})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := d.Dial(ctx); !errors.Is(err, context.Canceled) || time.Since(began) > 20*time.Second {
		t.Errorf("a stubborn command: %v after %v", err, time.Since(began))
	}
	none(t)
}

// A lineHandler calls do when a message that contains on is logged.
type lineHandler struct {
	on string
	do func()
}

func (h *lineHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.on) {
		h.do()
	}
	return nil
}
func (h *lineHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *lineHandler) WithGroup(string) slog.Handler      { return h }

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	err = dialError(t, Target{User: "me", Host: "127.0.0.1", Port: port}, &Config{ConfigFile: "none"})
	if !errors.Is(err, syscall.ECONNREFUSED) || err.Error() != fmt.Sprintf("me@127.0.0.1: the connection to 127.0.0.1:%d was refused", port) {
		t.Errorf("a refused connection: %v", err)
	}
	err = dialError(t, Target{Host: "no-such-host.invalid"}, &Config{ConfigFile: "none", Options: []string{"ConnectTimeout=10"}})
	var dns *net.DNSError
	if !errors.As(err, &dns) || !strings.HasPrefix(err.Error(), "no-such-host.invalid: the name no-such-host.invalid ") {
		t.Errorf("a name that does not resolve: %v", err)
	}
	none(t)
}

func TestNotSSH(t *testing.T) {
	for _, c := range []struct{ answer, says string }{
		{"HTTP/1.0 400 Bad Request\r\nServer: x\r\n\r\n", `something else than SSH: "HTTP/1.0 400 Bad Request"`},
		{"Exceeded MaxStartups\r\n", `something else than SSH: "Exceeded MaxStartups"`},
		{"", "closed the connection before it said anything"},
		{"\x1b[2J\x00evil", `"?[2J?evil"`},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			io.WriteString(conn, c.answer)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
		}()
		err = dialError(t, Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}, &Config{ConfigFile: "none"})
		l.Close()
		var not *NotSSHError
		if !errors.As(err, &not) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.answer, err)
		}
	}
	none(t)
}

// TestTooManyKeys: what the server says when it hangs up is part of the error.
func TestTooManyKeys(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"MaxAuthTries 2"}})
	dir := t.TempDir()
	c := &Config{ConfigFile: srv.ConfigFile}
	for _, name := range []string{"a", "b", "c"} {
		key := filepath.Join(dir, name)
		writeKey(t, key, "")
		c.Identities = append(c.Identities, key)
	}
	err := dialError(t, Target{Host: srv.Alias}, c)
	var auth *AuthError
	if !errors.As(err, &auth) || len(auth.Keys) < 2 || !strings.Contains(err.Error(), "Too many authentication failures") {
		t.Errorf("got %v", err)
	}
}

func TestSystem(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	command := opensshd.Find(t, "ssh")
	d, err := New(testContext(t), Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, SSH: `"` + command + `" -q`})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	first, second := open(t, conn), open(t, conn)
	if conn.SSH() != nil || conn.ServerVersion() != "" || !errors.Is(conn.Keepalive(testContext(t)), errors.ErrUnsupported) {
		t.Error("the system's ssh looks like the native one")
	}
	first.Close()
	if status, ok := first.ExitStatus(); !ok || status != 0 {
		t.Errorf("ssh ended with %d, %v: %s", status, ok, first.Stderr())
	}
	greetAgain := second // still there
	if _, err := greetAgain.Write([]byte{0, 0, 0, 5, 17, 0, 0, 0, 1}); err != nil {
		t.Error(err)
	}
	conn.Close()
	if _, err := io.Copy(io.Discard, second); err == nil {
		t.Error("a stream outlived its connection")
	}
	if _, err := conn.Open(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
	none(t)
}

func TestSystemFails(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, SSH: "ssh"})
	s, err := conn.Open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(s)
	var sub *SubsystemError
	if !errors.As(err, &sub) || sub.ExitStatus != 255 || !strings.Contains(err.Error(), "Host key verification failed") {
		t.Errorf("got %v", err)
	}
	if _, err := New(testContext(t), Target{Host: "h"}, &Config{SSH: "'open"}); err == nil {
		t.Error("an open quote was taken")
	}
	conn = connect(t, Target{Host: "h"}, &Config{SSH: "/nonexistent/ssh"})
	if _, err := conn.Open(testContext(t)); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that is not there: %v", err)
	}
}

func TestSplitCommand(t *testing.T) {
	for in, want := range map[string]string{
		"ssh": "ssh", " ssh  -v ": "ssh|-v", `'/a b/ssh' -o "X=a b"`: "/a b/ssh|-o|X=a b", `a'b'c ""`: "abc|",
	} {
		got, err := splitCommand(in)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("splitCommand(%q) = %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "  ", "'a"} {
		if got, err := splitCommand(in); err == nil {
			t.Errorf("splitCommand(%q) = %q", in, got)
		}
	}
}

// TestLibraryLogin logs in without any OpenSSH client on the path.
func TestLibraryLogin(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	open(t, connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Env: withoutSSH(t.TempDir())}))
}
