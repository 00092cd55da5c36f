package demo

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// A demoServer serves a directory on the loopback address to clients with its password. Its keys
// and the password exist only in memory.
type demoServer struct {
	addr        *net.TCPAddr
	fingerprint string
	password    string
	files       *osfs.FS
	sshd        *sshd.Server
	ended       chan error
}

const demoUser = "demo"

func startDemoServer(dir string) (_ *demoServer, err error) {
	s := &demoServer{password: rand.Text(), ended: make(chan error, 1)}
	if s.files, err = osfs.New(dir); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.files.Close()
		return nil, fmt.Errorf("the demo's server cannot listen: %s", err)
	}
	s.addr = listener.Addr().(*net.TCPAddr)
	if s.sshd, err = sshd.New(sshd.Config{Password: s.login}); err != nil {
		listener.Close()
		s.files.Close()
		return nil, err
	}
	s.fingerprint = ssh.FingerprintSHA256(s.sshd.HostKeys()[0])
	go func() { s.ended <- s.sshd.Serve(listener) }()
	return s, nil
}

func (s *demoServer) close() {
	s.sshd.Close()
	<-s.ended
	s.files.Close()
}

func (s *demoServer) login(conn ssh.ConnMetadata, password string) (*sshd.Access, error) {
	if conn.User() != demoUser || subtle.ConstantTimeCompare([]byte(password),
		[]byte(s.password)) != 1 {
		return nil, errors.New("wrong user or password")
	}
	return &sshd.Access{FS: s.files}, nil
}

// clientConfig returns how to connect, independent of the user's own configuration.
func (s *demoServer) clientConfig() *dial.Config {
	return &dial.Config{
		ConfigFile: "none",
		Options: []string{
			"UserKnownHostsFile=none", "GlobalKnownHostsFile=none", "StrictHostKeyChecking=ask",
			"PubkeyAuthentication=no", "IdentityAgent=none", "PreferredAuthentications=password",
		},
		Prompter: dial.PrompterFunc(s.prompt),
	}
}

// prompt answers the questions for a person: the server's key and the password are known here.
func (s *demoServer) prompt(_ context.Context, p dial.Prompt) (string, error) {
	switch p.Kind {
	case dial.AskHostKey:
		if p.Fingerprint != s.fingerprint {
			return "", errors.New("another server answers instead of the demo's")
		}
		return "yes", nil
	case dial.AskPassword:
		return s.password, nil
	}
	return "", errors.New("the demo does not support that")
}

func (s *demoServer) place(path string) connect.Place {
	t := dial.Target{User: demoUser, Host: s.addr.IP.String(), Port: s.addr.Port, Path: path}
	return connect.Place{Typed: t.String(), Remote: true, Target: t}
}
