// Package opensshd starts OpenSSH's server on the loopback address for a test, with keys made for
// the run, as the current user. It needs no privileges and touches no file outside the test's
// directory, except /run/sshd, which sshd requires to exist when it runs as root.
package opensshd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// Options for [Start]. The zero value is valid.
type Options struct {
	// Config are further lines for sshd_config. They come first, so they take precedence.
	Config []string
	// ClientConfig are further lines for the client's configuration, before ours.
	ClientConfig []string
	// HostKeyTypes are the types of host key to make, as ssh-keygen -t takes them;
	// by default "ed25519".
	HostKeyTypes []string
	// NoKnownHosts leaves the client's known_hosts file empty.
	NoKnownHosts bool
	// Alias is the name that the client's configuration gives the server, "testhost" by default.
	Alias string
}

// A Server is a running sshd.
type Server struct {
	Host string // "127.0.0.1"
	Port int
	User string // the user who may log in: the current one
	// Dir contains everything below, and is removed after the test.
	Dir string
	// ConfigFile is for a client's -F: it names the server Alias and sets HostName, Port, User,
	// IdentityFile and UserKnownHostsFile, and contains nothing from the user's own configuration.
	ConfigFile     string
	Alias          string
	IdentityFile   string // a private key that may log in, without a passphrase
	KnownHosts     string // a file that holds the server's keys
	AuthorizedKeys string // a file to add keys to
	HostKeys       []string

	log string // the name of its log file
}

// Addr returns "host:port".
func (s *Server) Addr() string { return net.JoinHostPort(s.Host, fmt.Sprint(s.Port)) }

// Log returns sshd's log so far. It has logged a login before it opens a channel.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.log)
	return string(text)
}

// Find returns the path of a program, such as one of OpenSSH's, which may be where only sshd and
// ssh look. If it is missing, Find skips the test with an explanation, or fails it if
// USFTP_REQUIRE=1 is in the environment.
func Find(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/lib/openssh", "/usr/libexec",
		"/usr/libexec/openssh", "/usr/lib/ssh"} {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
			return path
		}
	}
	testenv.Unavailable(t, "the program "+name)
	return ""
}

// Keygen makes a key with ssh-keygen and returns the private key's path.
func Keygen(t testing.TB, file string, args ...string) string {
	t.Helper()
	keygen := Find(t, "ssh-keygen")
	if len(args) == 0 {
		args = []string{"-t", "ed25519"}
	}
	if slices.Contains(args, "rsa") && !slices.Contains(args, "-b") {
		args = append(args, "-b", "2048") // 3072 bits, the default, take a second or several to find
	}
	args = append([]string{"-q", "-f", file, "-C", filepath.Base(file)}, args...)
	if !slices.Contains(args, "-N") {
		args = append(args, "-N", "")
	}
	if out, err := exec.Command(keygen, args...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %v: %v: %s", args, err, out)
	}
	return file
}

// Start runs a server until the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	sshd, sftp := Find(t, "sshd"), Find(t, "sftp-server")
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: it contains the test's name, which makes the path of a ControlPath or an
	// agent's socket too long.
	dir, err := os.MkdirTemp("", "opensshd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{Host: "127.0.0.1", User: u.Username, Dir: dir,
		Alias: cmp.Or(o.Alias, "testhost")}
	s.IdentityFile = Keygen(t, filepath.Join(dir, "id"))
	s.AuthorizedKeys = filepath.Join(dir, "authorized_keys")
	write(t, s.AuthorizedKeys, read(t, s.IdentityFile+".pub"))
	types := o.HostKeyTypes
	if len(types) == 0 {
		types = []string{"ed25519"}
	}
	for _, kind := range types {
		s.HostKeys = append(s.HostKeys, Keygen(t, filepath.Join(dir, "host_"+kind), "-t", kind))
	}
	if os.Getuid() == 0 {
		// sshd's privilege separation needs its directory, owned by root and writable for nobody else.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, sshd, sftp, o)
	s.writeClient(t, o)
	return s
}

// startTries is how many ports are tried: except on Linux, another process may take a free port
// first.
const startTries = 5

func (s *Server) run(t testing.TB, sshd, sftp string, o Options) {
	t.Helper()
	for try := 1; ; try++ {
		s.Port = testenv.FreePort(t)
		var conf strings.Builder
		for _, line := range o.Config {
			fmt.Fprintln(&conf, line)
		}
		fmt.Fprintf(&conf, "ListenAddress %s:%d\nAuthorizedKeysFile %s\nPidFile none\n", s.Host,
			s.Port, s.AuthorizedKeys)
		// the one directive that must not be repeated
		if !strings.Contains(conf.String(), "Subsystem sftp") {
			fmt.Fprintf(&conf, "Subsystem sftp %s\n", sftp)
		}
		// A bash that sshd starts reads ~/.bashrc first, unless another shell has started it. A
		// developer's ~/.bashrc may take seconds, print text, or change the PATH.
		fmt.Fprint(&conf, "SetEnv SHLVL=1\n")
		// The test's directories are below /tmp, which others may write to.
		fmt.Fprint(&conf, "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nMaxStartups 100:30:200\nPrintMotd no\n")
		// On a busy machine, a passphrase may take longer to check than sshd's two minutes.
		fmt.Fprint(&conf, "LoginGraceTime 0\n")
		// Both sides of OpenSSH would take sntrup761, which costs more processor time than all the rest
		// of a login. usftp does not know it.
		fmt.Fprint(&conf, "KexAlgorithms -sntrup761*\n")
		for _, key := range s.HostKeys {
			fmt.Fprintf(&conf, "HostKey %s\n", key)
		}
		file := filepath.Join(s.Dir, "sshd_config")
		write(t, file, conf.String())
		err := s.launch(t, sshd, file)
		if err == nil {
			return
		}
		if try == startTries || !strings.Contains(s.Log(), "already in use") {
			t.Fatalf("sshd did not start: %v: %s", err, s.Log())
		}
	}
}

// launch starts sshd and waits until it listens. sshd logs to a file and not to a pipe: a file has
// a line as soon as sshd has written it, and no test waits for sessions that still have it open.
func (s *Server) launch(t testing.TB, sshd, config string) error {
	s.log = filepath.Join(s.Dir, "log")
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(sshd, "-D", "-e", "-f", config)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	stop := func() {
		cmd.Process.Signal(syscall.SIGTERM) // not SIGINT, which it may have inherited as ignored
		<-exited
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	limit := time.After(testenv.Patience(t))
	for {
		select {
		case <-look.C:
			if strings.Contains(s.Log(), "Server listening") {
				t.Cleanup(stop)
				return nil
			}
		case <-exited:
			return errors.New("it ended")
		case <-limit:
			stop()
			return errors.New("it does not listen in time")
		}
	}
}

func (s *Server) writeClient(t testing.TB, o Options) {
	s.KnownHosts = filepath.Join(s.Dir, "known_hosts")
	var known strings.Builder
	if !o.NoKnownHosts {
		for _, key := range s.HostKeys {
			fmt.Fprintf(&known, "[%s]:%d %s", s.Host, s.Port, read(t, key+".pub"))
		}
	}
	write(t, s.KnownHosts, known.String())
	s.ConfigFile = filepath.Join(s.Dir, "ssh_config")
	var conf strings.Builder
	for _, line := range o.ClientConfig {
		fmt.Fprintln(&conf, line)
	}
	conf.WriteString(s.ClientBlock())
	write(t, s.ConfigFile, conf.String())
}

// ClientBlock returns the client's configuration for this server, to be combined with others.
func (s *Server) ClientBlock() string {
	return fmt.Sprintf("Host %s\n\tHostName %s\n\tPort %d\n\tUser %s\n\tIdentityFile %s\n\tIdentitiesOnly yes\n\tIdentityAgent none\n\tUserKnownHostsFile %s\n\tGlobalKnownHostsFile none\n",
		s.Alias, s.Host, s.Port, s.User, s.IdentityFile, s.KnownHosts)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
