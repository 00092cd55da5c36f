//go:build linux

package servers_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A site is a directory for a server: "host" is its key, "id" and "authorized_keys" the user's, and
// "files" is what it serves.
type site struct{ dir string }

func newSite(t *testing.T) *site {
	t.Helper()
	// Not t.TempDir, whose name is too long for some.
	dir, err := os.MkdirTemp("", "servers")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &site{dir}
	for _, name := range []string{"host", "id"} {
		opensshd.Keygen(t, s.file(name))
	}
	must(t, os.Link(s.file("id.pub"), s.file("authorized_keys")))
	must(t, os.Mkdir(s.file("files"), 0o755))
	return s
}

func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

// host returns a server's host whose files are those of this machine.
func (s *site) host(t *testing.T, addr string) *host {
	u, err := user.Current()
	must(t, err)
	return &host{addr: addr, user: u.Username, dir: s.file("files"), real: s.file("files"),
		disk: endpointtest.Directory(t, s.file("files"))}
}

// openSSH is the installed sshd.
func openSSH(t *testing.T, s *site) *host {
	if os.Getuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755))
	}
	port := testenv.FreePort(t)
	must(t, os.WriteFile(s.file("sshd_config"), fmt.Appendf(nil, "HostKey %s\n"+
		"ListenAddress 127.0.0.1:%d\nPidFile none\nAuthorizedKeysFile %s\nStrictModes no\n"+
		"UsePAM no\nPermitRootLogin yes\nSetEnv SHLVL=1\nSubsystem sftp %s\n", s.file("host"), port,
		s.file("authorized_keys"), opensshd.Find(t, "sftp-server")), 0o600))
	return s.host(t, testenv.Daemon(t, port, nil, opensshd.Find(t, "sshd"), "-D", "-e", "-f",
		s.file("sshd_config")))
}

// dropbear has no SFTP of its own, and starts OpenSSH's. It finds the user's keys by the C library.
func dropbear(t *testing.T, s *site) *host {
	out, err := exec.Command(testenv.Program(t, "dropbearconvert"), "openssh", "dropbear",
		s.file("host"), s.file("dropbear_key")).CombinedOutput()
	if err != nil {
		t.Fatalf("dropbearconvert: %v: %s", err, out)
	}
	h := s.host(t, "")
	must(t, os.Chmod(s.dir, 0o700))
	must(t, os.Mkdir(s.file(".ssh"), 0o700))
	must(t, os.Link(s.file("authorized_keys"), s.file(".ssh/authorized_keys")))
	port := testenv.FreePort(t)
	h.addr = testenv.Daemon(t, port, testenv.Accounts(t, s.dir, h.user, ""), opensshd.Find(t, "dropbear"), "-F", "-E", "-p", fmt.Sprintf("127.0.0.1:%d", port), "-r",
		s.file("dropbear_key"))
	return h
}

// proFTPD reads public keys in RFC 4716's form only.
func proFTPD(t *testing.T, s *site) *host {
	program := opensshd.Find(t, "proftpd")
	keys, err := exec.Command(testenv.Program(t, "ssh-keygen"), "-e", "-f",
		s.file("id.pub")).Output()
	must(t, err)
	must(t, os.WriteFile(s.file("keys"), keys, 0o600))
	h := s.host(t, "")
	must(t, os.WriteFile(s.file("passwd"), fmt.Appendf(nil, "%s:x:%d:%d::%s:/bin/sh\n", h.user,
		os.Getuid(), os.Getgid(), s.file("files")), 0o600))
	port := testenv.FreePort(t)
	must(t, os.WriteFile(s.file("proftpd.conf"), fmt.Appendf(nil, `ModulePath /usr/lib/proftpd
LoadModule mod_sftp.c
ServerType standalone
DefaultAddress 127.0.0.1
Port %d
UseIPv6 off
User %s
Group root
RootLogin on
RequireValidShell off
UseFtpUsers off
WtmpLog off
AuthOrder mod_auth_file.c
AuthUserFile %s
ScoreboardFile %s
DelayTable none
PidFile %s
SystemLog none
TransferLog none
AllowOverwrite on
SFTPEngine on
SFTPHostKey %s
SFTPAuthMethods publickey
SFTPAuthorizedUserKeys file:%s
SFTPLog %s
`, port, h.user, s.file("passwd"), s.file("scoreboard"), s.file("pid"), s.file("host"),
		s.file("keys"), s.file("sftp.log")), 0o600))
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(s.file("sftp.log"))
			t.Logf("%s", text[max(0, len(text)-2000):])
		}
	})
	h.addr = testenv.Daemon(t, port, nil, program, "-n", "-q", "-c", s.file("proftpd.conf"))
	return h
}

// script is a server in testdata that is told the site's directory, and prints its port.
func script(argv func(t *testing.T) []string) func(*testing.T, *site) *host {
	return func(t *testing.T, s *site) *host {
		return s.host(t, "127.0.0.1:"+s.scripted(t, append(argv(t), s.dir)).port)
	}
}

// A scripted server is one in testdata. It ends with its standard input.
type scripted struct {
	port string
	in   *bufio.Writer
	out  *bufio.Reader
}

func (s *site) scripted(t *testing.T, argv []string) *scripted {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir)
	var words bytes.Buffer
	cmd.Stderr = &words
	in, err := cmd.StdinPipe()
	must(t, err)
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		late := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
		if t.Failed() {
			t.Logf("the server says: %.4000s", &words)
		}
	})
	out := bufio.NewReader(pipe)
	line, err := out.ReadString('\n')
	port, found := strings.CutPrefix(strings.TrimSpace(line), "PORT ")
	if !found {
		t.Fatalf("%s did not start: %q, %v", argv, line, err)
	}
	return &scripted{port, bufio.NewWriter(in), out}
}

// python runs a script with a library.
func python(library string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		return []string{testenv.Python(t, library), "-W", "ignore",
			testdata(t, library+"_server.py")}
	}
}

// node runs a script with npm's ssh2.
func node(t *testing.T) []string {
	return []string{testenv.NodeSSH2(t), testdata(t, "ssh2_server.js")}
}

// erlang runs OTP's ssh_sftpd.
func erlang(t *testing.T) []string {
	program := testenv.Program(t, "escript")
	if exec.Command(testenv.Program(t, "erl"), "-noshell", "-eval",
		"ok = application:ensure_started(crypto), {module, _} = code:load_file(ssh_sftpd), halt().").
		Run() != nil {
		testenv.Unavailable(t, "Erlang's ssh")
	}
	return []string{program, testdata(t, "otp_server.escript")}
}

// java is a library's server in testdata/java, which .ci/hosts builds: USFTP_JAVA_SERVERS is where.
func java(library string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		dir := os.Getenv("USFTP_JAVA_SERVERS")
		if dir == "" {
			testenv.Unavailable(t, library+" for Java ($USFTP_JAVA_SERVERS)")
		}
		// It does not run for long enough to win back what its best compiler takes.
		return []string{testenv.Program(t, "java"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
			"-cp", filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "lib", "*"), "Servers",
			library}
	}
}

func testdata(t *testing.T, name string) string {
	file, err := filepath.Abs(filepath.Join("testdata", name))
	must(t, err)
	return file
}
