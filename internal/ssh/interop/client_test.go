package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// serverPeer is another implementation's server, tested with our client.
type serverPeer struct {
	name   string
	logins []string
	large  int
	start  func(t *testing.T, s *site) (addr string)
	least  int
	// simple marks a server that drops the last output of a program, does not pass the end of the
	// data on to it, and reads nothing from the program while the program reads nothing from it.
	simple bool
}

var serverPeers = []serverPeer{
	{"OpenSSH", []string{"ed25519", "ecdsa", "rsa", "password"}, largeMiB, openssh, 27, false},
	{"OpenSSH 10", []string{"ed25519", "ecdsa", "rsa", "password"}, largeMiB, openssh10, 26, false},
	{"dropbear", []string{"ed25519", "ecdsa", "rsa", "password"}, largeMiB, dropbear, 15, false},
	{"paramiko", []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"}, largeMiB,
		scriptedServer(func(t testing.TB) []string {
			return []string{testenv.Python(t, "paramiko"), scripted("paramiko_peer.py")}
		}), 18, false},
	{"asyncssh", []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"}, largeMiB,
		scriptedServer(func(t testing.TB) []string {
			return []string{testenv.Python(t, "asyncssh"), scripted("asyncssh_peer.py")}
		}), 25, false},
	{"ssh2", []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"}, 16, scriptedServer(node),
		20,
		false},
	{"libssh", []string{"ed25519", "password"}, 16, libssh, 20, true},
	{"Apache MINA", []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"}, largeMiB,
		scriptedServer(java("mina")), 29, false},
}

// TestClient: our client talks to other implementations' servers.
func TestClient(t *testing.T) {
	for i, p := range serverPeers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			testClient(t, p, i)
		})
	}
}

func testClient(t *testing.T, p serverPeer, index int) {
	s := newSite(t)
	addr := p.start(t, s)
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	theirs, err := probe(conn)
	must(t, err)
	ours := ssh.Supported()
	all := cases(lists{ours.KeyExchanges, ours.HostKeys, ours.Ciphers, ours.MACs}, theirs, p.logins,
		p.large)
	if len(all) < p.least {
		t.Errorf("only %d cases, of %d", len(all), p.least)
	}
	for _, c := range share(all, index) {
		note(t, "our client with", p.name, c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			conn, err := net.Dial("tcp", addr)
			must(t, err)
			must(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
			conf := s.config(c)
			client, err := ssh.Client(ctx, conn, conf)
			must(t, err)
			defer client.Close()
			must(t, s.session(ctx, client, c.mib, p.simple))
			if n, least := client.Exchanges(), 1+c.mib/2; n < least {
				t.Errorf("keys were exchanged %d times, not %d", n, least)
			}
		})
	}
}

// config is our client's configuration for one case.
func (s *site) config(c peerCase) *ssh.ClientConfig {
	cc := &ssh.ClientConfig{User: user, Version: "SSH-2.0-usftp", RekeyBytes: 1 << 20}
	limitTo(&cc.Algorithms, c.name)
	cc.HostKey = func(_ net.Addr, key xssh.PublicKey, algo string) error {
		for _, k := range s.hosts {
			if bytes.Equal(k.PublicKey().Marshal(), key.Marshal()) {
				return nil
			}
		}
		return errors.New("another host key, for " + algo)
	}
	var method ssh.AuthMethod
	switch c.login {
	case "password":
		method = ssh.Password(func() (string, error) { return secret, nil }, nil)
	case "keyboard":
		method = ssh.KeyboardInteractive(func(_, _ string, asked []string, _ []bool) ([]string,
			error) {
			return slices.Repeat([]string{secret}, len(asked)), nil
		})
	default:
		method = ssh.PublicKey(s.ids[c.login])
	}
	cc.Auth = func(*ssh.AuthContext) (m ssh.AuthMethod, err error) {
		m, method = method, nil
		return m, nil
	}
	return cc
}

// session sends blocks through a "cat" and checks what comes back, and the end.
func (s *site) session(ctx context.Context, client *ssh.Conn, mib int,
	simple bool) error {
	ch, err := client.Open(ctx, "session", nil)
	if err != nil {
		return err
	}
	defer ch.Close()
	text := command
	if simple {
		text = fmt.Sprintf("dd bs=16k iflag=fullblock status=none count=%d; "+
			"echo words >&2; read go; exit 3", mib*blockSize>>14)
	}
	ok, err := ch.Request(ctx, "exec", true, xssh.Marshal(struct{ S string }{text}))
	if err != nil || !ok {
		return fmt.Errorf("exec: %v %w", ok, err)
	}
	ahead := blockSize // how much is read at once
	if simple {
		ahead = 64 << 10 // never more on its way than the program's pipes hold
	} else {
		go func() {
			for range mib {
				if _, err := ch.Write(s.block); err != nil {
					return
				}
			}
			ch.CloseWrite()
		}()
	}
	got := make([]byte, ahead)
	for at := 0; at < mib*blockSize; at += ahead {
		want := s.block[at%blockSize:][:ahead]
		if simple {
			if _, err := ch.Write(want); err != nil {
				return fmt.Errorf("byte %d: %w", at, err)
			}
		}
		if _, err := io.ReadFull(ch, got); err != nil {
			return fmt.Errorf("byte %d: %w", at, err)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("what came back differs after byte %d", at)
		}
	}
	if simple {
		if _, err := io.ReadFull(ch.Stderr(), make([]byte, len("words\n"))); err != nil {
			return err
		}
		ch.Write([]byte("\n"))
	}
	rest, err := io.ReadAll(ch)
	if len(rest) > 0 || err != nil {
		return fmt.Errorf("%d bytes more, %w", len(rest), err)
	}
	words, err := io.ReadAll(ch.Stderr())
	if string(words) != "words\n" && !simple {
		return fmt.Errorf("standard error is %q, %w", words, err)
	}
	<-ch.Done()
	if e := ch.ExitStatus(); !e.Known || e.Status != 3 {
		return fmt.Errorf("exit status %+v", e)
	}
	return nil
}

// scriptedServer returns a server that is our own program using a library. Its arguments are
// "server" and the site's directory, and it prints "PORT n".
func scriptedServer(argv func(t testing.TB) []string) func(*testing.T, *site) string {
	return func(t *testing.T, s *site) string {
		args := append(argv(t), "server", s.dir)
		cmd := exec.Command(args[0], args[1:]...)
		var words bytes.Buffer
		cmd.Stderr = &words
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("the server says: %s", short(words.Bytes()))
			}
		})
		line, err := bufio.NewReader(out).ReadString('\n')
		port, ok := strings.CutPrefix(strings.TrimSpace(line), "PORT ")
		if !ok {
			t.Fatalf("the server did not start: %q, %v", line, err)
		}
		return "127.0.0.1:" + port
	}
}

// accounts returns an environment in which the C library knows the user and the password.
func (s *site) accounts(t *testing.T) []string {
	t.Helper()
	const hash = "$6$usftpusftp$" + // of "secret"
		"OyJJqSVGkBdZ4XY8CmOMcQihQEJjQWjLLXFD7K1hGIBnWZDkPcNsZOxrFr7GRqI9WBAGtdyLVhOKaaAM/Nc1F/"
	return testenv.Accounts(t, s.dir, user, hash)
}

// openssh is the installed sshd.
func openssh(t *testing.T, s *site) string {
	return s.sshd(t, []string{opensshd.Find(t, "sshd")})
}

func (s *site) sshd(t *testing.T, argv []string, options ...string) string {
	if os.Getuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755))
	}
	port := testenv.FreePort(t)
	for _, kind := range keyTypes {
		options = append(options, "HostKey "+s.file("host_"+kind))
	}
	options = append(options, fmt.Sprintf("ListenAddress 127.0.0.1:%d", port), "PidFile none",
		"AuthorizedKeysFile "+s.file("authorized_keys"), "StrictModes no", "UsePAM no",
		"PasswordAuthentication yes", "PermitRootLogin yes", "MaxStartups 100:30:200",
		"RekeyLimit 1M", "KexAlgorithms +diffie-hellman-group-exchange-sha256")
	file := s.file("sshd_config")
	must(t, os.WriteFile(file, []byte(strings.Join(options, "\n")+"\n"), 0o600))
	return testenv.Daemon(t, port, s.accounts(t), append(argv, "-D", "-e", "-f", file)...)
}

// openssh10 is a newer sshd than the installed one.
func openssh10(t *testing.T, s *site) string {
	wrapper := testenv.OpenSSH10(t, s.dir)
	sshd := wrapper("/usr/sbin/sshd")
	return s.sshd(t, []string{sshd}, "SshdSessionPath "+wrapper("/usr/lib/openssh/sshd-session"),
		"SshdAuthPath "+wrapper("/usr/lib/openssh/sshd-auth"))
}

func dropbear(t *testing.T, s *site) string {
	convert := opensshd.Find(t, "dropbearconvert")
	port := testenv.FreePort(t)
	argv := []string{opensshd.Find(t, "dropbear"), "-F", "-E", "-p",
		fmt.Sprintf("127.0.0.1:%d", port)}
	for _, kind := range keyTypes {
		out, err := exec.Command(convert, "openssh", "dropbear", s.file("host_"+kind),
			s.file("dbhost_"+kind)).CombinedOutput()
		if err != nil {
			t.Fatalf("dropbearconvert: %v: %s", err, out)
		}
		argv = append(argv, "-r", s.file("dbhost_"+kind))
	}
	must(t, os.Chmod(s.dir, 0o700))
	must(t, os.Mkdir(s.file(".ssh"), 0o700))
	must(t, os.Link(s.file("authorized_keys"), s.file(".ssh/authorized_keys")))
	return testenv.Daemon(t, port, s.accounts(t), argv...)
}

// libssh is libssh's example server, which USFTP_LIBSSH names: see .ci/libssh. It accepts only the
// first key.
func libssh(t *testing.T, s *site) string {
	program := os.Getenv("USFTP_LIBSSH")
	if program == "" {
		testenv.Unavailable(t, "libssh's example server ($USFTP_LIBSSH)")
	}
	port := testenv.FreePort(t)
	return testenv.Daemon(t, port, nil, program, "-p", fmt.Sprint(port), "-k",
		s.file("host_ed25519"), "-a", s.file("authorized_keys"), "-u", user, "-P", secret,
		"127.0.0.1")
}
