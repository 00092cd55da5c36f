// Package sshd serves files over SSH: it accepts connections, lets users in, and serves SFTP and
// the old protocol of scp on their channels. There are no shells, no commands, no forwarding.
//
// [Config] has one function for keys and one for passwords. A [Directory] has both for a list of
// users with their keys, passwords and limits, and can be changed while the server runs.
package sshd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/lograte"
)

// Access is what somebody who logged in may use.
type Access struct {
	// FS is what is served. It is shared by the user's sessions and not closed by this package.
	FS server.FS

	// Policy is how it is served.
	Policy server.Policy

	// Bandwidth, when not nil, bounds what is sent and received; logins may share one.
	Bandwidth *Bandwidth

	// Sessions, when not nil, bounds the sessions at any time; logins may share one.
	Sessions *SessionLimit
}

// Config describes a server. At least one way to log in must be there.
type Config struct {
	// HostKeys are the keys that the server proves itself with. Without any, an Ed25519 key is
	// made, which clients will not know again after a restart; see [LoadHostKeys].
	HostKeys []ssh.Signer

	// PublicKey decides on a key or certificate, whose owner has yet to prove that it is theirs: it
	// may be called for keys that the client only asks about. Nil: no keys.
	PublicKey func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error)

	// Password decides on a password, also one that was asked for by keyboard-interactive. Nil: no
	// passwords.
	Password func(conn ssh.ConnMetadata, password string) (*Access, error)

	// Logger gets what happens: logins, files, refusals; nil is silent. Strings are cut at 128
	// bytes. Lines about connections that have not logged in are limited for each address, and
	// bytes of lines for each user who has. A Handler with a method Omit(context.Context,
	// slog.Record) is told of what is left out, so that it can count it.
	Logger *slog.Logger

	// LoginTimeout bounds the time between the connection and a successful login: 30 seconds by
	// default.
	LoginTimeout time.Duration

	// IdleTimeout ends a connection on which nothing has moved for so long, in either direction,
	// and for which the server is doing nothing: 30 minutes by default, never when negative.
	IdleTimeout time.Duration

	// MaxSessions bounds the channels of one connection: 10 by default, as with OpenSSH.
	MaxSessions int

	// MaxLogins bounds the connections that are logging in, MaxLoginsEach those of one address: 100
	// and 20 by default. What is beyond waits, for half of LoginTimeout at most, and is closed
	// then.
	MaxLogins, MaxLoginsEach int

	// DropStart, DropRate and MaxLogins are the three numbers of sshd's MaxStartups: half of
	// MaxLogins, and 30 percent, by default. From DropStart connections on that are logging in, a
	// new one has one dropped with the probability DropRate, which grows to certainty at MaxLogins.
	// It is not the new one that is dropped, but one that has been at it for a tenth of
	// LoginTimeout, of an address with most connections. Where there is none, the new one waits.
	DropStart, DropRate int

	// MaxLoginsKnown is how many connections may be logging in besides MaxLogins, from addresses
	// that have logged in before: a fifth of MaxLogins by default, none when negative. They are not
	// dropped.
	MaxLoginsKnown int

	// Ciphers are those that clients may choose from; the order is the client's. By default they
	// are OpenSSH's, and, where the processor has instructions for AES, an OpenSSH client on a fast
	// link that knows AES-GCM is offered nothing else: left to itself it would choose a cipher that
	// takes twice the time.
	Ciphers []string

	// LegacyAlgorithms are key exchanges that are offered besides those of OpenSSH 10's defaults,
	// for clients that know nothing better, such as "diffie-hellman-group14-sha256". The function
	// [LegacyAlgorithms] lists them. There is no SHA-1 and no CBC.
	LegacyAlgorithms []string

	// Exempt tells which addresses are never banned or counted, such as load balancers that hide
	// the client's own.
	Exempt func(netip.Addr) bool
}

// ErrServerClosed is what Serve returns after Close or Shutdown.
var ErrServerClosed = errors.New("sshd: the server is closed")

// Server accepts SSH connections. It is safe for concurrent use.
type Server struct {
	state   atomic.Pointer[state]
	guard   *guard
	buffers server.Pool
	work    server.Work
	blocks  transport.Buffers
	windows *transport.Windows

	// What is written to the log: lines of addresses and of all together before the login, bytes of
	// users after it.
	lines    *lograte.Table[netip.Prefix]
	allLines *lograte.Limit
	bytes    *lograte.Table[string]

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	draining  bool // no new connections or sessions
	listeners map[net.Listener]struct{}
	conns     map[*connection]struct{}
	running   sync.WaitGroup
}

// state is what Reload replaces.
type state struct {
	Config
	ssh *transport.ServerConfig
}

// New returns a server.
func New(config Config) (*Server, error) {
	s := &Server{
		guard:     newGuard(),
		lines:     lograte.NewTable[netip.Prefix](lograte.Lines, guardMost),
		allLines:  lograte.New(strangersLines),
		bytes:     lograte.NewTable[string](userBytes, guardMost),
		windows:   transport.NewWindows(windowGrowth),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*connection]struct{}{},
	}
	if err := s.Reload(config); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Reload makes config hold for connections to come. Those that are there go on as they are. Without
// HostKeys the ones there are stay.
func (s *Server) Reload(config Config) error {
	if config.PublicKey == nil && config.Password == nil {
		return errors.New("sshd: nobody could log in: neither keys nor passwords are accepted")
	}
	if old := s.state.Load(); len(config.HostKeys) == 0 && old != nil {
		config.HostKeys = old.HostKeys
	}
	if len(config.HostKeys) == 0 {
		key, err := NewHostKey()
		if err != nil {
			return err
		}
		config.HostKeys = []ssh.Signer{key}
	}
	config.Logger = lograte.Cut(config.Logger)
	setDefault(&config.LoginTimeout, 30*time.Second)
	setDefault(&config.IdleTimeout, 30*time.Minute)
	setDefault(&config.MaxSessions, 10)
	setDefault(&config.MaxLogins, 100)
	setDefault(&config.MaxLoginsEach, 20)
	setDefault(&config.DropStart, max(config.MaxLogins/2, 1))
	setDefault(&config.DropRate, 30)
	setDefault(&config.MaxLoginsKnown, config.MaxLogins/5)
	if config.Exempt == nil {
		config.Exempt = func(netip.Addr) bool { return false }
	}
	next := &state{Config: config}
	var err error
	if next.ssh, err = s.serverConfig(&config); err != nil {
		return fmt.Errorf("sshd: %w", err)
	}
	s.state.Store(next)
	return nil
}

// windowGrowth is how much the windows of all connections may grow beyond the 2 MiB that each begins
// with: by 14 MiB for 18 connections, or for OpenSSH's clients by 2 MiB for 128. Windows are what
// clients may send before a session has taken it, and so what they can have us keep.
const windowGrowth = 256 << 20

var (
	// strangersLines bounds the lines about all connections before their login: 5 MB at once, and
	// less than a gigabyte a day.
	strangersLines = lograte.Rate{Burst: 10_000, PerSecond: 20}

	// userBytes bounds the lines about one user: 100,000 files at once, and a gigabyte a day.
	userBytes = lograte.Rate{Burst: 32 << 20, PerSecond: 16 << 10}
)

// loginLimits are those that hold for connections that come.
func (s *state) loginLimits() *loginLimits {
	return &loginLimits{start: s.DropStart, rate: s.DropRate, full: s.MaxLogins,
		known: s.MaxLoginsKnown, each: s.MaxLoginsEach, stale: s.LoginTimeout / 10,
		timeout: s.LoginTimeout / 2}
}

func setDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

// HostKeys returns the public halves of the server's keys.
func (s *Server) HostKeys() []ssh.PublicKey {
	var keys []ssh.PublicKey
	for _, signer := range s.state.Load().HostKeys {
		keys = append(keys, signer.PublicKey())
	}
	return keys
}

// Serve accepts connections on l until the server is closed, or accepting fails for good, and
// closes l.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.track(func() { s.listeners[l] = struct{}{} }) {
		return ErrServerClosed
	}
	defer s.untrack(func() { delete(s.listeners, l) })
	for pause := time.Duration(0); ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			go s.ServeConn(conn)
		case s.isDraining():
			return ErrServerClosed
		case !outOfFiles(err):
			return fmt.Errorf("sshd: accepting connections: %w", err)
		default:
			// Connections that end give their descriptors back.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.state.Load().Logger.Error("cannot accept connections", "error", err)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		}
	}
}

// track notes something that Close has to end, and waits for; false means that the server is
// closed.
func (s *Server) track(note func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
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

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// drain stops accepting, and closes the connections on which nothing runs.
func (s *Server) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for l := range s.listeners {
		l.Close()
	}
	for conn := range s.conns {
		if conn.sessions == 0 {
			go conn.hangUp()
		}
	}
}

// Shutdown stops accepting connections and sessions, waits until the sessions that run have ended,
// or ctx has, and closes what is left then. The error is ctx's when it had to.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
		s.Close()
		return ctx.Err()
	}
}

// Close ends everything and waits until it has ended.
func (s *Server) Close() error {
	s.drain()
	s.cancel()
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}
