//go:build unix

package dial

import (
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
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

func connect(t testing.TB, target Target, c *Config) *Conn {
	t.Helper()
	d, err := New(testContext(t), target, c)
	if err != nil {
		t.Fatal(err)
	}
	return dialed(t, d)
}

func open(t testing.TB, c *Conn) *Stream {
	t.Helper()
	s := opened(t, c)
	greet(t, s)
	return s
}

func dialError(t testing.TB, target Target, c *Config) error {
	t.Helper()
	d, err := New(testContext(t), target, c)
	if err != nil {
		return err
	}
	conn, err := d.Dial(testContext(t))
	if err == nil {
		conn.Close()
		t.Fatal("it connected")
	}
	return err
}

// algorithmsOf returns what proved the host, and what seals what we receive.
func algorithmsOf(c *Conn) (hostKey, cipher string) {
	if t, ok := c.transport.(ownTransport); ok {
		a := t.Algorithms()
		return a.HostKey, a.Ciphers[1]
	}
	a := c.transport.(xcryptoTransport).Conn.(ssh.AlgorithmsConnMetadata).Algorithms()
	return a.HostKey, a.Read.Cipher
}

// none waits until no goroutine of SSH's or ours is left. They end by themselves a
// moment after what they serve has gone, and tell nobody.
func none(t testing.TB) {
	t.Helper()
	buf := make([]byte, 1<<20)
	var stacks string
	defer func() {
		if stacks != "" {
			t.Logf("goroutines are left:\n%s", stacks)
		}
	}()
	testenv.Until(t, "no goroutine is left", func() bool {
		stacks = ""
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "crypto/ssh") || strings.Contains(g, "internal/ssh.") ||
				strings.Contains(g, "usftp/dial.") && !strings.Contains(g, "testing.tRunner") {
				stacks += g + "\n\n"
			}
		}
		return stacks == ""
	})
}

func TestNative(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	var streams []*Stream
	for range 3 {
		s := open(t, conn)
		if s.Window() != 2<<20 || conn.Host() != srv.Alias || s.conn != conn {
			t.Errorf("stream: window %d, host %q", s.Window(), conn.Host())
		}
		streams = append(streams, s)
	}
	if err := conn.Keepalive(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if v := conn.ServerVersion(); !strings.HasPrefix(v, "SSH-2.0-OpenSSH") {
		t.Errorf("the server's version is %q", v)
	}
	if line, err := os.ReadFile(srv.HostKeys[0] + ".pub"); err != nil ||
		!strings.HasPrefix(string(line),
			strings.TrimSpace(string(ssh.MarshalAuthorizedKey(conn.HostKey())))) {
		t.Errorf("the host's key is %s, want %s, %v", ssh.FingerprintSHA256(conn.HostKey()), line,
			err)
	}
	if _, cipher := algorithmsOf(conn); hasAES() && cipher != ssh.CipherAES128GCM {
		t.Errorf("the cipher is %s", cipher)
	}
	if user := conn.SSH().User(); user != srv.User {
		t.Errorf("the user is %s", user)
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

// TestPackets sends pieces of all sizes around those at which packets are split, and expects the
// same bytes back, through key exchanges.
func TestPackets(t *testing.T) {
	srv := opensshd.Start(t,
		opensshd.Options{Config: []string{"Subsystem sftp " + opensshd.Find(t, "cat")}})
	for _, cipher := range []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com",
		"aes128-ctr"} {
		conn := connect(t, Target{Host: srv.Alias},
			&Config{ConfigFile: srv.ConfigFile, Ciphers: cipher,
				Options: []string{"RekeyLimit=1M"}})
		stream, err := conn.Open(testContext(t))
		if err != nil {
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
			go stream.Write(sent)
			got := make([]byte, n)
			if _, err := io.ReadFull(stream, got); err != nil || string(got) != string(sent) {
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
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 2"}})
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	open(t, conn)
	open(t, conn)
	_, err := conn.Open(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "the server refused another channel") {
		t.Errorf("beyond MaxSessions: %v", err)
	}
}

func TestNoSubsystem(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t,
		opensshd.Options{Config: []string{"Subsystem sftp /nonexistent/sftp-server"}})
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

func TestHostCertificateOnTheWire(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := opensshd.Keygen(t, filepath.Join(dir, "ca"))
	key := opensshd.Keygen(t, filepath.Join(dir, "host"))
	if out, err := exec.Command(opensshd.Find(t, "ssh-keygen"), "-q", "-s", ca, "-I", "h", "-h",
		"-n", "127.0.0.1", key+".pub").CombinedOutput(); err != nil {
		t.Fatalf("signing: %v: %s", err, out)
	}
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true,
		Config: []string{"HostKey " + key, "HostCertificate " + key + "-cert.pub"}})
	line, err := os.ReadFile(ca + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, srv.KnownHosts, "@cert-authority 127.0.0.* "+string(line))
	conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile})
	open(t, conn)
	if kind := conn.HostKey().Type(); kind != ssh.KeyAlgoED25519 {
		t.Errorf("the host's key is of type %s, and should be what the certificate certifies", kind)
	}
	writeFile(t, srv.KnownHosts, "@cert-authority 127.0.0.* "+string(line)+"@revoked * "+
		string(line))
	var bad *HostKeyError
	if err := dialError(t, Target{Host: srv.Alias},
		&Config{ConfigFile: srv.ConfigFile}); !errors.As(err, &bad) ||
		bad.Problem != HostKeyRevoked {
		t.Errorf("with a revoked authority: %v", err)
	}
}

// TestKnownTypeFirst: of a server's keys the one that is known must be asked for, or it
// would look like a changed one.
func TestKnownTypeFirst(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{HostKeyTypes: []string{"ed25519", "ecdsa", "rsa"}})
	for i, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		line, err := os.ReadFile(srv.HostKeys[i] + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, srv.KnownHosts, fmt.Sprintf("[%s]:%d %s", srv.Host, srv.Port, line))
		for _, options := range [][]string{nil, {"HostKeyAlgorithms=+ssh-rsa"},
			{"HostKeyAlgorithms=-ecdsa-sha2-nistp521"}} { // for which ssh asks for it first, too
			conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
				Options: options})
			if hostKey, _ := algorithmsOf(conn); !strings.Contains(hostKey, kind) {
				t.Errorf("%s: with a known %s key the server showed %s", options, kind, hostKey)
			}
			conn.Close()
		}
	}
}

func TestAcceptNewOnTheWire(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true})
	strict := func(v string) *Config {
		return &Config{ConfigFile: srv.ConfigFile,
			Options: []string{"StrictHostKeyChecking=" + v, "HashKnownHosts=yes"}}
	}
	var bad *HostKeyError
	if err := dialError(t, Target{Host: srv.Alias}, strict("ask")); !errors.As(err, &bad) ||
		bad.Problem != HostKeyUnknown {
		t.Errorf("an unknown key: %v", err)
	}
	connect(t, Target{Host: srv.Alias}, strict("accept-new")).Close()
	connect(t, Target{Host: srv.Alias}, strict("yes")).Close()
	// OpenSSH's client agrees with what was written.
	cmd := exec.Command(opensshd.Find(t, "ssh"), "-F", srv.ConfigFile, "-o",
		"StrictHostKeyChecking=yes", srv.Alias, "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("ssh: %v: %s", err, out)
	}
}

// TestLogLevel: with LogLevel ERROR nothing but errors is shown, so that what runs by itself prints
// nothing.
func TestLogLevel(t *testing.T) {
	banner := writeFile(t, filepath.Join(t.TempDir(), "banner"), "welcome\n")
	srv := opensshd.Start(t, opensshd.Options{NoKnownHosts: true,
		Config: []string{"Banner " + banner}})
	for level, want := range map[string]int{"INFO": 2, "ERROR": 0, "quiet": 0} {
		var said strings.Builder
		log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelWarn}))
		connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile, Logger: log,
			Banner:  func(_, text string) { said.WriteString(text) },
			Options: []string{"LogLevel=" + level, "StrictHostKeyChecking=no"}}).Close()
		if strings.Count(said.String(), "\n") != want {
			t.Errorf("with LogLevel %s: %q", level, said.String())
		}
		if err := os.Truncate(srv.KnownHosts, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLibraryLogin logs in without any OpenSSH client on the path.
func TestLibraryLogin(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	open(t, connect(t, Target{Host: srv.Alias},
		&Config{ConfigFile: srv.ConfigFile, Env: withoutSSH(t.TempDir())}))
}
