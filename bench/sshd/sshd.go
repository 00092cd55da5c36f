// Package sshd starts OpenSSH's server on one address of this machine with keys made for the run,
// and keeps account of the processor time that it and its children take.
package sshd

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/pipes"
)

// ErrNoServer says that this machine has no sshd.
var ErrNoServer = errors.New("no sshd found (Debian package openssh-server)")

// Config says how the server runs. The zero value listens on a free port of 127.0.0.1 with
// OpenSSH's default ciphers.
type Config struct {
	// Cipher is the only cipher that the server offers, so that no client needs a flag for it; empty
	// offers the default ones.
	Cipher string
	// Address is where it listens; empty is 127.0.0.1.
	Address string
	// Port is the one it listens on; 0 takes a free one, which works only for addresses of this
	// process's network.
	Port string
	// Programs is a directory that comes first on the path of its users; empty adds none.
	Programs string
	// Start starts the process; nil is (*exec.Cmd).Start. Another network namespace comes in here.
	Start func(*exec.Cmd) error
}

// Access has everything that a client needs to log in.
type Access struct {
	Address, Port, User string
	// Key, KnownHosts and ClientConfig are files: the private key, the server's key, and an
	// ssh_config that names the server "host" and uses both.
	Key, KnownHosts, ClientConfig string
}

// Server is a running sshd.
type Server struct {
	Access
	// HostKey and AuthorizedKeys are files, for other servers to have the same.
	HostKey, AuthorizedKeys string

	hostKey ssh.PublicKey
	cmd     *exec.Cmd
	dir     string
	stderr  bytes.Buffer
}

// Start runs sshd until Close.
func Start(config Config) (server *Server, err error) {
	binary, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "usftp-sshd-")
	if err != nil {
		return nil, err
	}
	s := &Server{Access: Access{Address: config.Address, Port: config.Port}, dir: dir}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if s.Address == "" {
		s.Address = "127.0.0.1"
	}
	if s.Port == "" {
		if s.Port, err = FreePort(s.Address); err != nil {
			return nil, err
		}
	}
	if err := s.writeFiles(config.Cipher, config.Programs); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(binary, "-D", "-e", "-f", filepath.Join(dir, "sshd_config"))
	if err := measure.Adopt(s.cmd); err != nil {
		return nil, err
	}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	start := (*exec.Cmd).Start
	if config.Start != nil {
		start = config.Start
	}
	if err := start(s.cmd); err != nil {
		return nil, err
	}
	if err := s.awaitListening(output); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func find() (string, error) {
	for _, path := range []string{"/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// FreePort returns a TCP port that nobody listens on.
func FreePort(address string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// awaitListening reads sshd's own words until it says that it listens, then lets the rest go by.
func (s *Server) awaitListening(output interface{ Read([]byte) (int, error) }) error {
	timer := time.AfterFunc(2*time.Minute, func() { s.cmd.Process.Kill() })
	defer timer.Stop()
	buffer := make([]byte, 4096)
	for !strings.Contains(s.stderr.String(), "Server listening on") {
		n, err := output.Read(buffer)
		s.stderr.Write(buffer[:n])
		if err != nil {
			return fmt.Errorf("sshd did not start: %s", strings.TrimSpace(s.stderr.String()))
		}
	}
	go func() {
		for {
			if _, err := output.Read(buffer); err != nil {
				return
			}
		}
	}()
	return nil
}

func (s *Server) writeFiles(cipher, programs string) error {
	account, err := user.Current()
	if err != nil {
		return err
	}
	s.User = account.Username
	s.Key = filepath.Join(s.dir, "key")
	s.HostKey, s.AuthorizedKeys = filepath.Join(s.dir, "host_key"), filepath.Join(s.dir,
		"authorized_keys")
	s.hostKey, err = writeKey(s.HostKey)
	if err != nil {
		return err
	}
	userKey, err := writeKey(s.Key)
	if err != nil {
		return err
	}
	subsystem, err := pipes.FindServer()
	if err != nil {
		return err
	}
	ciphers := ""
	if cipher != "" {
		ciphers = "Ciphers " + cipher + "\n"
	}
	if programs != "" {
		programs = " PATH=" + programs + ":" + os.Getenv("PATH")
	}
	// With SHLVL=1 bash takes itself for an inner shell and skips ~/.bashrc, which can make each
	// login take longer than everything else in it.
	files := map[string]string{
		"authorized_keys": string(ssh.MarshalAuthorizedKey(userKey)),
		"sshd_config": fmt.Sprintf(`ListenAddress %s
Port %s
HostKey %s/host_key
AuthorizedKeysFile %s/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
SetEnv SHLVL=1%s
Subsystem sftp %s
LogLevel INFO
%s`, s.Address, s.Port, s.dir, s.dir, programs, subsystem, ciphers),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	s.Access, err = s.Via(s.Address, s.Port)
	return err
}

// Via is the access to the server through another address that leads to it, such as a proxy's.
func (s *Server) Via(address, port string) (Access, error) {
	a := s.Access
	a.Address, a.Port = address, port
	a.KnownHosts = filepath.Join(s.dir, "known_hosts-"+port)
	a.ClientConfig = filepath.Join(s.dir, "ssh_config-"+port)
	known := knownhosts.Line([]string{net.JoinHostPort(address, port)}, s.hostKey) + "\n"
	config := fmt.Sprintf(`Host host h?
	HostName %s
	Port %s
	User %s
	IdentityFile %s
	IdentitiesOnly yes
	UserKnownHostsFile %s
	GlobalKnownHostsFile none
	BatchMode yes
`, a.Address, a.Port, a.User, a.Key, a.KnownHosts)
	return a, errors.Join(
		os.WriteFile(a.KnownHosts, []byte(known), 0o600),
		os.WriteFile(a.ClientConfig, []byte(config), 0o600),
	)
}

// Dial logs in with x/crypto/ssh and its default algorithms.
func (a Access) Dial() (*ssh.Client, error) {
	key, err := os.ReadFile(a.Key)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		return nil, err
	}
	check, err := knownhosts.New(a.KnownHosts)
	if err != nil {
		return nil, err
	}
	return ssh.Dial("tcp", net.JoinHostPort(a.Address, a.Port), &ssh.ClientConfig{
		User:              a.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback:   check,
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
		Timeout:           2 * time.Minute,
	})
}

func writeKey(path string) (ssh.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(public)
}

// Processor waits until no session is left and returns the processor time of all that have ended.
func (s *Server) Processor() (time.Duration, error) {
	return measure.SettledProcessor(s.cmd.Process.Pid, 2*time.Minute)
}

// Process is sshd's.
func (s *Server) Process() *os.Process { return s.cmd.Process }

// Close ends the server and removes its keys.
func (s *Server) Close() error {
	if s.cmd.Process != nil {
		s.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { s.cmd.Process.Kill() })
		s.cmd.Wait()
		timer.Stop()
	}
	return os.RemoveAll(s.dir)
}
