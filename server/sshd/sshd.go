// Package sshd serves files over SSH: it accepts connections, lets users in, and runs [server.Serve] on the channels of
// those who ask for SFTP. There are no shells, no commands, no forwarding.
package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/bigread"
	"github.com/usftp/usftp/server"
)

// Access is what somebody who logged in may use.
type Access struct {
	// FS is what is served. It is shared by the user's sessions and not closed by this package.
	FS server.FS

	// Policy is how it is served.
	Policy server.Policy
}

// Config describes a server. At least one way to log in must be there.
type Config struct {
	// HostKeys are the keys that the server proves itself with. Without any, an Ed25519 key is made, which clients will
	// not know again after a restart.
	HostKeys []ssh.Signer

	// PublicKey decides on a key, whose owner has yet to prove that it is theirs: it may be called for keys that the client
	// only asks about. Nil: no keys.
	PublicKey func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error)

	// Password decides on a password. Nil: no passwords.
	Password func(conn ssh.ConnMetadata, password string) (*Access, error)

	// Logger gets what happens; nil is silent.
	Logger *slog.Logger

	// LoginTimeout bounds the time between the connection and a successful login: 30 seconds by default.
	LoginTimeout time.Duration

	// MaxSessions bounds the channels of one connection: 10 by default, as with OpenSSH.
	MaxSessions int
}

// ErrServerClosed is what Serve returns after Close.
var ErrServerClosed = errors.New("sshd: the server is closed")

// Server accepts SSH connections. It is safe for concurrent use.
type Server struct {
	config  Config
	ssh     *ssh.ServerConfig
	log     *slog.Logger
	buffers server.Pool
	reads   bigread.Pool

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	conns     map[net.Conn]struct{}
	running   sync.WaitGroup
}

// New returns a server.
func New(config Config) (*Server, error) {
	if config.PublicKey == nil && config.Password == nil {
		return nil, errors.New("sshd: nobody could log in: neither keys nor passwords are accepted")
	}
	if config.LoginTimeout <= 0 {
		config.LoginTimeout = 30 * time.Second
	}
	if config.MaxSessions <= 0 {
		config.MaxSessions = 10
	}
	if len(config.HostKeys) == 0 {
		key, err := NewHostKey()
		if err != nil {
			return nil, err
		}
		config.HostKeys = []ssh.Signer{key}
	}
	s := &Server{
		config:    config,
		log:       config.Logger,
		listeners: map[net.Listener]struct{}{},
		conns:     map[net.Conn]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ssh = s.serverConfig()
	return s, nil
}

// NewHostKey makes an Ed25519 key.
func NewHostKey() (ssh.Signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(private)
}

// HostKeys returns the public halves of the server's keys.
func (s *Server) HostKeys() []ssh.PublicKey {
	var keys []ssh.PublicKey
	for _, signer := range s.config.HostKeys {
		keys = append(keys, signer.PublicKey())
	}
	return keys
}

// accessKey is where an Access travels from a login to the connection.
type accessKey struct{}

func (s *Server) serverConfig() *ssh.ServerConfig {
	config := &ssh.ServerConfig{ServerVersion: "SSH-2.0-usftp", MaxAuthTries: 6}
	for _, key := range s.config.HostKeys {
		config.AddHostKey(key)
	}
	if decide := s.config.PublicKey; decide != nil {
		config.PublicKeyCallback = func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return permissions(decide(conn, key))
		}
	}
	if decide := s.config.Password; decide != nil {
		config.PasswordCallback = func(conn ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return permissions(decide(conn, string(password)))
		}
	}
	return config
}

var errNoAccess = errors.New("sshd: access denied")

func permissions(access *Access, err error) (*ssh.Permissions, error) {
	if err == nil && (access == nil || access.FS == nil) {
		err = errNoAccess
	}
	if err != nil {
		return nil, err
	}
	return &ssh.Permissions{ExtraData: map[any]any{accessKey{}: access}}, nil
}

// Serve accepts connections on l until the server is closed, or accepting fails for good, and closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.track(func() { s.listeners[l] = struct{}{} }) {
		return ErrServerClosed
	}
	defer s.untrack(func() { delete(s.listeners, l) })
	for {
		conn, err := l.Accept()
		if err != nil {
			if s.isClosed() {
				return ErrServerClosed
			}
			return fmt.Errorf("sshd: accepting connections: %w", err)
		}
		go s.ServeConn(conn)
	}
}

// track notes something that Close has to end, and waits for; false means that the server is closed.
func (s *Server) track(note func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	note()
	return true
}

func (s *Server) untrack(forget func()) {
	s.mu.Lock()
	forget()
	s.mu.Unlock()
	s.running.Done()
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends everything and waits until it has ended.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	return nil
}

// ServeConn serves one connection until it ends.
func (s *Server) ServeConn(conn net.Conn) {
	if !s.track(func() { s.conns[conn] = struct{}{} }) {
		conn.Close()
		return
	}
	defer s.untrack(func() { delete(s.conns, conn) })
	defer conn.Close()
	log := s.log.With("remote", conn.RemoteAddr().String())
	conn.SetDeadline(time.Now().Add(s.config.LoginTimeout))
	ssh, channels, requests, err := ssh.NewServerConn(bigread.New(conn, &s.reads), s.ssh)
	if err != nil {
		log.Warn("login failed", "error", err)
		return
	}
	conn.SetDeadline(time.Time{})
	log = log.With("user", ssh.User())
	log.Info("logged in", "client", string(ssh.ClientVersion()))
	s.serveLogin(&login{
		server: s,
		access: ssh.Permissions.ExtraData[accessKey{}].(*Access),
		log:    log,
	}, channels, requests)
	log.Info("connection closed")
}

func (s *Server) serveLogin(l *login, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go ssh.DiscardRequests(requests)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	places := make(chan struct{}, s.config.MaxSessions)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			offered.Reject(ssh.UnknownChannelType, "only sessions are served")
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			offered.Reject(ssh.ResourceShortage, "too many sessions")
			continue
		}
		sessions.Go(func() {
			defer func() { <-places }()
			l.session(ctx, offered)
		})
	}
}
