package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// dialOpenSSH logs in to a real sshd.
func dialOpenSSH(t testing.TB, s *opensshd.Server, cc *ssh.ClientConfig) (*ssh.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := ssh.Client(ctx, conn, cc)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func userOf(t testing.TB, s *opensshd.Server) (*ssh.ClientConfig, xssh.Signer) {
	t.Helper()
	text, err := os.ReadFile(s.IdentityFile)
	must(t, err)
	key, err := xssh.ParsePrivateKey(text)
	must(t, err)
	cc := clientConfig(key)
	cc.User = s.User
	return cc, key
}

// sftpInit performs SFTP's handshake.
func sftpInit(t testing.TB, ch *ssh.Channel) {
	t.Helper()
	if _, err := ch.Write([]byte{0, 0, 0, 5, 1, 0, 0, 0, 3}); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 5)
	_, err := io.ReadFull(ch, head)
	must(t, err)
	if head[4] != 2 {
		t.Fatalf("the server answers INIT with %d", head[4])
	}
}

func run(t testing.TB, c *ssh.Conn, command string, stdin io.Reader) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ch, err := c.Open(ctx, "session", nil)
	must(t, err)
	ok, err := ch.Request(ctx, "exec", true, xssh.Marshal(struct{ S string }{command}))
	must(t, err)
	if !ok {
		t.Fatal("exec was refused")
	}
	go func() {
		if stdin != nil {
			io.Copy(ch, stdin)
		}
		ch.CloseWrite()
	}()
	out, err := io.ReadAll(ch)
	must(t, err)
	<-ch.Done()
	ch.Close()
	if e := ch.ExitStatus(); !e.Known || e.Status != 0 {
		t.Errorf("%s ended with %+v", command, e)
	}
	return out
}

// TestClientWithOpenSSH uses each algorithm that sshd supports too, and exchanges keys in the
// middle.
func TestClientWithOpenSSH(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{
		HostKeyTypes: []string{"ed25519", "ecdsa", "rsa"},
		Config: []string{"RekeyLimit 1M", "KexAlgorithms +diffie-hellman-group-exchange-sha256",
			"MaxSessions 20"},
	})
	opensshKex := string(output(t, "ssh", "-Q", "kex"))
	tried := 0
	try := func(name string, a ssh.Algorithms) {
		if tried++; !soak.Share(tried, 5) {
			return
		}
		t.Run(name, func(t *testing.T) {
			cc, _ := userOf(t, s)
			cc.Algorithms = a
			cc.RekeyBytes = 1 << 20
			c, err := dialOpenSSH(t, s, cc)
			must(t, err)
			data := pattern(5 << 20)
			if got := run(t, c, "cat", bytes.NewReader(data)); !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back that differ", len(got))
			}
			if c.Exchanges() < 4 {
				t.Errorf("keys were exchanged %d times", c.Exchanges())
			}
			if !c.Strict() {
				t.Error("key exchange is not strict")
			}
		})
	}
	all := ssh.Supported()
	for _, k := range all.KeyExchanges {
		if strings.Contains(opensshKex, k) {
			try("kex/"+k, ssh.Algorithms{KeyExchanges: []string{k}})
		}
	}
	for _, c := range all.Ciphers {
		try("cipher/"+c, ssh.Algorithms{Ciphers: []string{c}})
	}
	for _, m := range all.MACs {
		try("mac/"+m, ssh.Algorithms{Ciphers: []string{"aes128-ctr"}, MACs: []string{m}})
	}
	for _, k := range []string{xssh.KeyAlgoED25519, xssh.KeyAlgoECDSA256, xssh.KeyAlgoRSASHA256,
		xssh.KeyAlgoRSASHA512} {
		try("hostkey/"+k, ssh.Algorithms{HostKeys: []string{k}})
	}
}

func output(t testing.TB, program string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(opensshd.Find(t, program), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return out
}

// TestFlightToOpenSSH tests the login in one flight.
func TestFlightToOpenSSH(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"LogLevel DEBUG1"}})
	t.Run("granted", func(t *testing.T) {
		cc, key := userOf(t, s)
		cc.Auth = nil
		cc.Flight = func(*ssh.Conn) *ssh.Flight {
			return &ssh.Flight{Signer: key, Subsystem: "sftp"}
		}
		c, err := dialOpenSSH(t, s, cc)
		must(t, err)
		ch, ok, err := c.FlightChannel(context.Background())
		if err != nil || !ok || ch == nil {
			t.Fatalf("the flight's channel: %v %v", ok, err)
		}
		sftpInit(t, ch)
		sftpInit(t, session(t, c, "sftp"))
	})
	t.Run("wrong key", func(t *testing.T) {
		cc, key := userOf(t, s)
		tried := 0
		cc.Auth = func(a *ssh.AuthContext) (ssh.AuthMethod, error) {
			if tried++; tried > 1 {
				return nil, nil
			}
			if len(a.Tried) != 1 || len(a.Allowed) == 0 {
				t.Errorf("context %+v", a)
			}
			return ssh.PublicKey(key), nil
		}
		wrong := signer(t, "ed25519")
		cc.Flight = func(*ssh.Conn) *ssh.Flight {
			return &ssh.Flight{Signer: wrong, Subsystem: "sftp"}
		}
		c, err := dialOpenSSH(t, s, cc)
		must(t, err)
		if ch, ok, err := c.FlightChannel(context.Background()); ch != nil || ok || err != nil {
			t.Errorf("a channel of a login that was refused: %v %v", ok, err)
		}
		sftpInit(t, session(t, c, "sftp"))
		if n := strings.Count(s.Log(), "Failed publickey"); n > 1 {
			t.Errorf("%d attempts failed", n)
		}
	})
	t.Run("refused host key", func(t *testing.T) {
		cc, key := userOf(t, s)
		before := s.Log()
		cc.HostKey = func(net.Addr, xssh.PublicKey, string) error {
			return errors.New("not this one")
		}
		cc.Flight = func(*ssh.Conn) *ssh.Flight {
			return &ssh.Flight{Signer: key, Subsystem: "sftp"}
		}
		if _, err := dialOpenSSH(t, s, cc); err == nil || err.Error() != "not this one" {
			t.Errorf("the login ended with %v", err)
		}
		if strings.Contains(strings.TrimPrefix(s.Log(), before), "Accepted publickey") {
			t.Error("the flight left all the same")
		}
	})
}

// TestTunnel goes through one sshd to another.
func TestTunnel(t *testing.T) {
	near, far := opensshd.Start(t, opensshd.Options{}), opensshd.Start(t, opensshd.Options{})
	cc, _ := userOf(t, near)
	jump, err := dialOpenSSH(t, near, cc)
	must(t, err)
	conn, err := jump.Dial(context.Background(), far.Host, far.Port)
	must(t, err)
	cc, _ = userOf(t, far)
	c, err := ssh.Client(context.Background(), conn, cc)
	must(t, err)
	data := pattern(3 << 20)
	if got := run(t, c, "cat", bytes.NewReader(data)); !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back that differ", len(got))
	}
	end(c, jump)
	var refused *ssh.OpenChannelError
	jump, err = dialOpenSSH(t, near, func() *ssh.ClientConfig {
		cc, _ := userOf(t, near)
		return cc
	}())
	must(t, err)
	if _, err := jump.Dial(context.Background(), "127.0.0.1", 1); !errors.As(err, &refused) {
		t.Errorf("nobody listens there: %v", err)
	}
}

func TestFlightRefusedChannel(t *testing.T) {
	s := opensshd.Start(t, opensshd.Options{Config: []string{"MaxSessions 0"}})
	cc, key := userOf(t, s)
	cc.Flight = func(*ssh.Conn) *ssh.Flight { return &ssh.Flight{Signer: key, Subsystem: "sftp"} }
	c, err := dialOpenSSH(t, s, cc)
	must(t, err)
	var refused *ssh.OpenChannelError
	if _, _, err := c.FlightChannel(context.Background()); !errors.As(err, &refused) {
		t.Errorf("the flight's channel: %v", err)
	}
}

// listen serves real clients with our server. It returns ssh's arguments up to the command.
func listen(t testing.TB, sc *ssh.ServerConfig) (args func(options ...string) []string) {
	t.Helper()
	dir := t.TempDir()
	identity := opensshd.Keygen(t, filepath.Join(dir, "id"))
	text, err := os.ReadFile(identity + ".pub")
	must(t, err)
	key, _, _, _, err := xssh.ParseAuthorizedKey(text)
	must(t, err)
	sc.Auth.PublicKeyCallback = letIn(key)
	port := execServer(t, sc)
	return func(options ...string) []string {
		all := []string{"-F", "none", "-p", fmt.Sprint(port), "-i", identity, "-o", "BatchMode=yes",
			"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
			"-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"}
		return append(append(all, options...), "ann@127.0.0.1")
	}
}

// execServer runs what clients ask for, and returns its port.
func execServer(t testing.TB, sc *ssh.ServerConfig) int {
	return testenv.Listen(t, func(conn net.Conn) {
		c, err := ssh.Server(conn, sc)
		if err != nil {
			t.Logf("server: %v", err)
			return
		}
		defer c.Close()
		serveExec(c)
	}).Port
}

// serveExec runs what a client asks for.
func serveExec(c *ssh.Conn) {
	for {
		offer, err := c.Accept()
		if err != nil {
			return
		}
		ch, err := offer.Accept()
		if err != nil {
			return
		}
		go func() {
			defer ch.Close()
			for {
				r, err := ch.NextRequest()
				if err != nil {
					return
				}
				command, _ := r.String()
				r.Reply(r.Type == "exec")
				if r.Type != "exec" {
					continue
				}
				cmd := exec.Command("sh", "-c", command)
				cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
				in, err := cmd.StdinPipe() // Wait must not wait for the client's end
				if err != nil || cmd.Start() != nil {
					return
				}
				go func() { io.Copy(in, ch); in.Close() }()
				cmd.Wait()
				// Before the end of the data, which makes clients close the channel.
				ch.SendRequest("exit-status", false,
					[]byte{0, 0, 0, byte(cmd.ProcessState.ExitCode())})
				ch.CloseWrite()
				return
			}
		}()
	}
}

// TestServerWithOpenSSH: the real ssh uses each algorithm, exchanging keys in the middle.
func TestServerWithOpenSSH(t *testing.T) {
	program := opensshd.Find(t, "ssh")
	opensshKex := string(output(t, "ssh", "-Q", "kex"))
	all := ssh.Supported()
	tried := 0
	for _, rekey := range []string{"client", "server"} {
		sc := &ssh.ServerConfig{Version: "SSH-2.0-ours",
			HostKeys: []xssh.Signer{signer(t, "ed25519"), signer(t, "ecdsa256"), signer(t, "rsa")}}
		limit := "RekeyLimit=1M"
		if rekey == "server" {
			sc.RekeyBytes, limit = 1<<20, "RekeyLimit=1G"
		}
		args := listen(t, sc)
		try := func(name string, options ...string) {
			if tried++; !soak.Share(tried, 5) {
				return
			}
			t.Run(rekey+"/"+name, func(t *testing.T) {
				data := pattern(5 << 20)
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, program,
					append(args(append(options, "-o", limit)...),
						"cat; echo words >&2; exit 3")...)
				cmd.Stdin = bytes.NewReader(data)
				var out, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &stderr
				err := cmd.Run()
				if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 3 {
					t.Fatalf("ssh ended with %v: %s", err, stderr.Bytes())
				}
				if !bytes.Equal(out.Bytes(), data) || stderr.String() != "words\n" {
					t.Errorf("%d bytes came back that differ; standard error: %q", out.Len(),
						stderr.String())
				}
			})
		}
		for _, k := range all.KeyExchanges {
			if strings.Contains(opensshKex, k) {
				try("kex/"+k, "-o", "KexAlgorithms="+k)
			}
		}
		for _, c := range all.Ciphers {
			try("cipher/"+c, "-o", "Ciphers="+c)
		}
		for _, m := range all.MACs {
			try("mac/"+m, "-o", "Ciphers=aes128-ctr", "-o", "MACs="+m)
		}
		for _, k := range []string{xssh.KeyAlgoED25519, xssh.KeyAlgoECDSA256,
			xssh.KeyAlgoRSASHA512} {
			try("hostkey/"+k, "-o", "HostKeyAlgorithms="+k)
		}
	}
}
