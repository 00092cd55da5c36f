package interop_test

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// clientPeer is another implementation's client, tested with our server.
type clientPeer struct {
	name   string
	logins []string
	large  int
	// run runs cases, each at its own port, and reports the result of each.
	run func(t *testing.T, s *site, run []portCase, report func(portCase, error))
	// least is how many cases must run: a probe that failed to see a list would silently leave some
	// out.
	least int
}

type portCase struct {
	peerCase
	port int
}

// program returns a peer that is started for each case.
func program(name string, args func(s *site, c portCase) (args, env []string)) func(*testing.T,
	*site, []portCase, func(portCase, error)) {
	return func(t *testing.T, s *site, run []portCase, report func(portCase, error)) {
		path := opensshd.Find(t, name)
		for _, c := range run {
			report(c, runProgram(s, c, path, args))
		}
	}
}

func runProgram(s *site, c portCase, path string,
	args func(s *site, c portCase) (args, env []string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	a, env := args(s, c)
	cmd := exec.CommandContext(ctx, path, a...)
	cmd.Env = append(append(os.Environ(), "HOME="+s.dir), env...)
	cmd.Dir = s.dir
	cmd.WaitDelay = time.Minute
	cmd.Stdin = bytes.NewReader(bytes.Repeat(s.block, c.mib))
	out := &returned{want: s.block}
	var words bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &words
	run := cmd.Run
	if filepath.Base(path) == "dbclient" {
		// When the channel closes while its standard output is a full pipe, dbclient 2022.83 writes
		// the rest and then waits for another packet from the server, for ever. A file is never
		// full.
		run = func() error { return runIntoFile(cmd, s.file("stdout"), out) }
	}
	err := run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 3 ||
		!strings.Contains(words.String(), "words\n") {
		return fmt.Errorf("%v: %s", err, short(words.Bytes()))
	}
	return out.all(c.mib)
}

// runIntoFile runs a command whose output goes to a file, and then to out.
func runIntoFile(cmd *exec.Cmd, name string, out io.Writer) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd.Stdout = file
	err = cmd.Run()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, copyErr := io.Copy(out, file)
	return errors.Join(err, copyErr)
}

// script returns a peer that handles all cases in one process: see testdata. Its arguments are
// "client", the site's directory, and NAME;PORT;LOGIN;MIB for each case, and it prints "ok NAME" or
// "FAIL NAME WHY".
func script(argv func(t testing.TB) []string) func(*testing.T, *site, []portCase,
	func(portCase, error)) {
	return func(t *testing.T, s *site, run []portCase, report func(portCase, error)) {
		args := append(argv(t), "client", s.dir)
		for _, c := range run {
			args = append(args, fmt.Sprintf("%s;%d;%s;%d", c.name, c.port, c.login, c.mib))
		}
		const most = 20 * time.Second // for a case, and a minute to start
		ctx, cancel := context.WithTimeout(context.Background(),
			time.Minute+time.Duration(len(run))*most)
		defer cancel()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "HOME="+s.dir)
		var words bytes.Buffer
		cmd.Stderr = &words
		out, err := cmd.Output()
		said := make(map[string]error)
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSuffix(line, "\n")
			if name, ok := strings.CutPrefix(line, "ok "); ok {
				said[name] = nil
			} else if rest, ok := strings.CutPrefix(line, "FAIL "); ok {
				for _, c := range run {
					if why, ok := strings.CutPrefix(rest, c.name+" "); ok {
						said[c.name] = errors.New(why)
					}
				}
			}
		}
		for _, c := range run {
			result, ok := said[c.name]
			if !ok {
				result = fmt.Errorf("the client did not get there: %v", err)
			}
			report(c, result)
		}
		if t.Failed() {
			t.Logf("the client says: %s", short(words.Bytes()))
		}
	}
}

// served is what our server has seen during one case.
type served struct {
	mu        sync.Mutex
	sessions  int
	exchanges int
	agreed    ssh.Negotiated
	errs      []error
}

// TestServer: other implementations' clients talk to our server.
func TestServer(t *testing.T) {
	for i, p := range clientPeers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			testServer(t, p, i)
		})
	}
}

func testServer(t *testing.T, p clientPeer, index int) {
	s := newSite(t)
	probing, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	offered := make(chan lists, 1)
	go func() {
		conn, err := probing.Accept()
		var l lists
		if err == nil {
			l, err = probe(conn)
		}
		probing.Close()
		if err == nil {
			offered <- l
		}
		close(offered)
	}()
	first := portCase{peerCase{"probe", p.logins[0], 1}, probing.Addr().(*net.TCPAddr).Port}
	p.run(t, s, []portCase{first}, func(portCase, error) {})
	probing.Close()
	theirs, ok := <-offered
	if !ok {
		t.Fatal("the client did not say what it offers")
	}
	ours := ssh.Supported()
	all := cases(lists{ours.KeyExchanges, ours.HostKeys, ours.Ciphers, ours.MACs}, theirs, p.logins,
		p.large)
	all = slices.DeleteFunc(all, func(c peerCase) bool {
		algo, ok := strings.CutPrefix(c.name, "hostkey/")
		return ok && s.without(algo)
	})
	if len(all) < p.least {
		t.Errorf("only %d cases, of %d", len(all), p.least)
	}
	var run []portCase
	seen := make(map[string]*served)
	for _, c := range share(all, index) {
		seen[c.name] = &served{}
		run = append(run, portCase{c, s.serve(t, c, seen[c.name])})
	}
	p.run(t, s, run, func(c portCase, err error) {
		note(t, "our server with", p.name, c.name, func(t *testing.T) {
			saw := seen[c.name]
			saw.mu.Lock()
			defer saw.mu.Unlock()
			if err != nil {
				t.Fatalf("%v; server: %v", err, errors.Join(saw.errs...))
			}
			if saw.sessions == 0 {
				t.Fatal("no session has been served")
			}
			// Both directions count, and each exchange restarts the count.
			if least := 1 + c.mib/2; saw.exchanges < least {
				t.Errorf("keys were exchanged %d times, not %d", saw.exchanges, least)
			}
			what, name, _ := strings.Cut(c.name, "/")
			n := saw.agreed
			got := map[string]string{"kex": n.KeyExchange, "hostkey": n.HostKey,
				"cipher": n.Ciphers[0], "mac": n.MACs[0]}[what]
			if got != "" && got != name {
				t.Errorf("%s was agreed on", got)
			}
		})
	})
}

// without reports whether the site has no key for an algorithm.
func (s *site) without(algo string) bool {
	return !slices.Contains([]string{xssh.KeyAlgoED25519, xssh.KeyAlgoECDSA256,
		xssh.KeyAlgoRSASHA256,
		xssh.KeyAlgoRSASHA512}, algo)
}

// limitTo narrows algorithms to the case's.
func limitTo(a *ssh.Algorithms, name string) {
	what, name, _ := strings.Cut(name, "/")
	switch what {
	case "kex":
		a.KeyExchanges = []string{name}
	case "hostkey":
		a.HostKeys = []string{name}
	case "cipher":
		a.Ciphers = []string{name}
	case "mac":
		a.Ciphers, a.MACs = []string{"aes128-ctr", "aes256-ctr"}, []string{name}
	}
}

// serve makes our server offer what one case needs, and returns its port.
func (s *site) serve(t *testing.T, c peerCase, saw *served) int {
	t.Helper()
	sc := &ssh.ServerConfig{Version: "SSH-2.0-usftp", HostKeys: s.hosts, RekeyBytes: 1 << 20}
	limitTo(&sc.Algorithms, c.name)
	if algo, ok := strings.CutPrefix(c.name, "hostkey/"); ok {
		sc.HostKeys = slices.DeleteFunc(slices.Clone(s.hosts), func(k xssh.Signer) bool {
			return k.PublicKey().Type() != strings.NewReplacer("rsa-sha2-256", "ssh-rsa",
				"rsa-sha2-512", "ssh-rsa").Replace(algo)
		})
		// The algorithms of a configuration come from its keys.
		if algo == xssh.KeyAlgoRSASHA256 || algo == xssh.KeyAlgoRSASHA512 {
			only, err := xssh.NewSignerWithAlgorithms(sc.HostKeys[0].(xssh.AlgorithmSigner),
				[]string{algo})
			must(t, err)
			sc.HostKeys = []xssh.Signer{only}
		}
	}
	switch c.login {
	case "password":
		sc.Auth.PasswordCallback = func(m xssh.ConnMetadata, p []byte) (*xssh.Permissions, error) {
			if m.User() != user || string(p) != secret {
				return nil, errors.New("wrong")
			}
			return nil, nil
		}
	case "keyboard":
		sc.Auth.KeyboardInteractiveCallback = func(m xssh.ConnMetadata,
			ask xssh.KeyboardInteractiveChallenge) (*xssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || m.User() != user || answers[0] != secret {
				return nil, errors.Join(err, errors.New("wrong"))
			}
			return nil, nil
		}
	default:
		want := s.ids[c.login].PublicKey().Marshal()
		sc.Auth.PublicKeyCallback = func(m xssh.ConnMetadata, k xssh.PublicKey) (*xssh.Permissions,
			error) {
			if m.User() != user || !bytes.Equal(k.Marshal(), want) {
				return nil, errors.New("wrong")
			}
			return nil, nil
		}
	}
	return testenv.Listen(t, func(conn net.Conn) {
		c, err := ssh.Server(conn, sc)
		if err != nil {
			saw.mu.Lock()
			saw.errs = append(saw.errs, err)
			saw.mu.Unlock()
			return
		}
		saw.serve(c)
	}).Port
}

// serve runs what a client requests.
func (saw *served) serve(c *ssh.Conn) {
	defer c.Close()
	for {
		offer, err := c.Accept()
		if err != nil {
			if err != io.EOF {
				saw.mu.Lock()
				saw.errs = append(saw.errs, err)
				saw.mu.Unlock()
			}
			return
		}
		ch, err := offer.Accept()
		if err != nil {
			return
		}
		go saw.session(c, ch)
	}
}

func (saw *served) session(c *ssh.Conn, ch *ssh.Channel) {
	defer ch.Close()
	for {
		r, err := ch.NextRequest()
		if err != nil {
			return
		}
		var cmd *exec.Cmd
		switch text, _ := r.String(); {
		case r.Type == "exec":
			cmd = exec.Command("sh", "-c", text)
		case r.Type == "subsystem" && text == "sftp":
			cmd = exec.Command(filepath.Join("/usr/lib/openssh", "sftp-server"))
		}
		r.Reply(cmd != nil)
		if cmd == nil {
			continue
		}
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return
		}
		go func() { io.Copy(in, ch); in.Close() }()
		cmd.Wait()
		saw.mu.Lock()
		saw.sessions++
		saw.exchanges, saw.agreed = c.Exchanges(), c.Algorithms()
		saw.mu.Unlock()
		// Before the end of the data, which makes clients close the channel.
		ch.SendRequest("exit-status", false, []byte{0, 0, 0, byte(cmd.ProcessState.ExitCode())})
		ch.CloseWrite()
		return
	}
}

var clientPeers = []clientPeer{
	{name: "OpenSSH", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB, least: 28, run: program("ssh", sshArgs)},
	{name: "dropbear", logins: []string{"ed25519", "ecdsa", "rsa", "password"}, large: largeMiB,
		least: 15, run: dbclient},
	{name: "PuTTY", logins: []string{"password", "ed25519", "ecdsa", "rsa", "keyboard"},
		large: largeMiB, least: 20, run: plink},
	{name: "paramiko", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB, least: 18, run: script(func(t testing.TB) []string {
			return []string{testenv.Python(t, "paramiko"), scripted("paramiko_peer.py")}
		})},
	{name: "asyncssh", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB, least: 25, run: script(func(t testing.TB) []string {
			return []string{testenv.Python(t, "asyncssh"), scripted("asyncssh_peer.py")}
		})},
	{name: "ssh2", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB,
		least: 20, run: script(node)},
	{name: "JSch", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB,
		least: 29, run: script(java("jsch"))},
	{name: "Apache MINA", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB, least: 29, run: script(java("mina"))},
	{name: "russh", logins: []string{"ed25519", "ecdsa", "rsa", "password", "keyboard"},
		large: largeMiB,
		least: 29, run: script(russh)},
	{name: "libssh2", logins: []string{"password", "ed25519", "ecdsa"}, large: largeMiB,
		least: 18, run: curl},
}

// sshArgs makes OpenSSH's client start key exchanges, too.
func sshArgs(s *site, c portCase) (args, env []string) {
	args = []string{"-F", "none", "-p", strconv.Itoa(c.port), "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
		"-o", "RekeyLimit=1M", "-o", "KexAlgorithms=+diffie-hellman-group-exchange-sha256"}
	env = []string{"SSH_AUTH_SOCK="}
	switch c.login {
	case "password", "keyboard":
		env = append(env, "SSH_ASKPASS="+s.askpass(), "SSH_ASKPASS_REQUIRE=force")
		args = append(args, "-o", "PubkeyAuthentication=no")
	default:
		args = append(args, "-o", "BatchMode=yes", "-i", s.file("id_"+c.login))
	}
	return append(args, user+"@127.0.0.1", command), env
}

// askpass is a program that prints the password.
func (s *site) askpass() string {
	file := s.file("askpass")
	os.WriteFile(file, []byte("#!/bin/sh\necho "+secret+"\n"), 0o700)
	return file
}

func dbclient(t *testing.T, s *site, run []portCase, report func(portCase, error)) {
	path, convert := opensshd.Find(t, "dbclient"), opensshd.Find(t, "dropbearconvert")
	for _, kind := range keyTypes {
		out, err := exec.Command(convert, "openssh", "dropbear", s.file("id_"+kind),
			s.file("db_"+kind)).CombinedOutput()
		if err != nil {
			t.Fatalf("dropbearconvert: %v: %s", err, out)
		}
	}
	for _, c := range run {
		report(c, runProgram(s, c, path, func(s *site, c portCase) (args, env []string) {
			args = []string{"-y", "-y", "-p", strconv.Itoa(c.port)}
			if c.login == "password" {
				env = []string{"DROPBEAR_PASSWORD=" + secret}
			} else {
				args = append(args, "-i", s.file("db_"+c.login))
			}
			return append(args, user+"@127.0.0.1", command), env
		}))
	}
}

// plink is the transport of psftp and pscp without SFTP above it.
func plink(t *testing.T, s *site, run []portCase, report func(portCase, error)) {
	path, convert := opensshd.Find(t, "plink"), opensshd.Find(t, "puttygen")
	for _, kind := range keyTypes {
		out, err := exec.Command(convert, s.file("id_"+kind), "-O", "private", "-o",
			s.file(kind+".ppk")).CombinedOutput()
		if err != nil {
			t.Fatalf("puttygen: %v: %s", err, out)
		}
	}
	hosts := []string{}
	for _, k := range s.hosts {
		hosts = append(hosts, "-hostkey", xssh.FingerprintSHA256(k.PublicKey()))
	}
	for _, c := range run {
		report(c, runProgram(s, c, path, func(s *site, c portCase) (args, env []string) {
			args = append([]string{"-ssh", "-batch", "-no-antispoof", "-P", strconv.Itoa(c.port),
				"-l",
				user}, hosts...)
			switch c.login {
			case "password", "keyboard":
				args = append(args, "-pw", secret)
			default:
				args = append(args, "-i", s.file(c.login+".ppk"))
			}
			return append(args, "127.0.0.1", command), nil
		}))
	}
}

// curl uploads a file with SFTP and downloads it.
func curl(t *testing.T, s *site, run []portCase, report func(portCase, error)) {
	path := opensshd.Find(t, "curl")
	for _, c := range run {
		report(c, func() error {
			sent, remote, fetched := s.file("sent"), s.file("remote"), s.file("fetched")
			os.Remove(remote)
			os.Remove(fetched)
			must(t, os.WriteFile(sent, bytes.Repeat(s.block, c.mib), 0o600))
			url := fmt.Sprintf("sftp://127.0.0.1:%d%s", c.port, remote)
			for _, way := range []struct{ flag, file, written string }{
				{"-T", sent, remote}, {"-o", fetched, fetched},
			} {
				args := []string{"-sS", "-k", "-m", "120", url, way.flag, way.file}
				if c.login == "password" {
					args = append(args, "-u", user+":"+secret)
				} else {
					args = append(args, "-u", user+":", "--key", s.file("id_"+c.login), "--pubkey",
						s.file("id_"+c.login+".pub"))
				}
				cmd := exec.Command(path, args...)
				cmd.Env = append(os.Environ(), "HOME="+s.dir)
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("%v: %s", err, short(out))
				}
				got, err := os.ReadFile(way.written)
				if err != nil {
					return err
				}
				out := &returned{want: s.block}
				out.Write(got)
				if err := out.all(c.mib); err != nil {
					return fmt.Errorf("curl %s: %w", way.flag, err)
				}
			}
			return nil
		}())
	}
}
