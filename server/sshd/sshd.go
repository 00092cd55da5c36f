// Package sshd serves files over SSH: it accepts connections, authenticates users, and serves SFTP
// and the old scp protocol on their channels. There are no shells, no commands and no forwarding.
//
// [Config] has one function for keys and one for passwords. A [Directory] provides both for a list
// of users with their keys, passwords and limits, and can be changed while the server runs.
package sshd

import (
	"cmp"
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

// Access has the files and limits of a logged-in user.
type Access struct {
	// FS has the served files. The user's sessions share it, and this package does not close it.
	FS server.FS

	// Policy restricts the use of FS.
	Policy server.Policy

	// Open, if FS is nil, returns both once the client has proved its identity. Its error ends the
	// connection.
	Open func() (server.FS, server.Policy, error)

	// Admit, if not nil, is called when the login is complete, which may be long after the
	// password: with a second factor, for example. Its error ends the connection. It is called
	// again before each session, which its error refuses: a connection may last. Several may begin
	// at once.
	Admit func() error

	// Bandwidth, if not nil, limits the bytes sent and received. Logins may share one.
	Bandwidth Bandwidth

	// Sessions limits the number of concurrent sessions. Logins may share one. Nil limits them to
	// 100 for all connections of the user, whom the name identifies.
	Sessions Sessions

	// Second, if not nil, is a second factor: it decides whether a code, requested by
	// keyboard-interactive, completes the login.
	Second func(conn ssh.ConnMetadata, code string) error

	// Renew, if not nil, means that the password has to be changed before the login is complete: it
	// takes the new one, or returns an [*UnacceptablePassword].
	Renew func(fresh string) error

	gone func() bool // of Admission
}

// Config configures a server. At least one of PublicKey and Password must be set.
type Config struct {
	// HostKeys identify the server. Without any, an Ed25519 key is generated, which clients will
	// not recognize after a restart; see [LoadHostKeys].
	HostKeys []ssh.Signer

	// PublicKey decides whether to accept a key or certificate. The client has yet to prove that it
	// owns the key, and may only be asking about it, in which case PublicKey is called again when
	// the client signs. Nil accepts no keys.
	PublicKey func(ssh.ConnMetadata, ssh.PublicKey) (*Access, error)

	// Password decides whether to accept a password, which may have come by keyboard-interactive.
	// Nil accepts no passwords.
	Password func(conn ssh.ConnMetadata, password string) (*Access, error)

	// Events, if not nil, gets an event for each login, failed login, ban, file, change and
	// refusal, before any limit. It is called by several goroutines at once, and the reported
	// action waits for it.
	Events func(server.Event)

	// Gate, if not nil, is asked before changes.
	Gate server.Gate

	// Hashes is [server.Reporter].Hashes.
	Hashes bool

	// Logger gets the same events as lines; nil logs nothing. Strings are cut at 128 bytes. Before
	// login, lines are limited by address; after it, bytes are limited by user, and lines about
	// refusals by session. A panic is logged with its stack, by slog.Default if Logger is nil.
	Logger *slog.Logger

	// LoginTimeout limits the time from the connection to a successful login, and from a session's
	// beginning to its program: 30 seconds by default.
	LoginTimeout time.Duration

	// IdleTimeout closes a connection on which no byte has moved for that long in either direction,
	// and for which no request is running: 30 minutes by default, never if negative.
	IdleTimeout time.Duration

	// Banner is a text that clients get before they log in; most show it.
	Banner string

	// MaxSessions limits the channels per connection: 10 by default, as with OpenSSH.
	MaxSessions int

	// MaxLogins limits the connections that are logging in, in total, and MaxLoginsEach from one
	// address: 100 and 20 by default. Further ones wait for up to half of LoginTimeout and are then
	// closed.
	MaxLogins, MaxLoginsEach int

	// DropStart, DropRate and MaxLogins are the three numbers of sshd's MaxStartups: by default
	// half of MaxLogins, and 30 percent. When DropStart connections are logging in, a new one
	// causes another to be dropped with probability DropRate, which rises to certainty at
	// MaxLogins. The victim is not the new one, but one that has been logging in for a tenth of
	// LoginTimeout, from an address with the most connections. Without a victim, the new one waits.
	DropStart, DropRate int

	// MaxLoginsKnown is the number of connections, in addition to MaxLogins, that may be logging in
	// from addresses that have logged in before: a fifth of MaxLogins by default, none if negative.
	// These are not dropped.
	MaxLoginsKnown int

	// Ciphers are the ciphers offered; the client's order decides. The default is OpenSSH's.
	Ciphers []string

	// LegacyAlgorithms are key exchanges to offer in addition to OpenSSH 10's defaults, for clients
	// that support nothing better, such as "diffie-hellman-group14-sha256". The function
	// [LegacyAlgorithms] lists them. There is no SHA-1 and no CBC.
	LegacyAlgorithms []string

	// Compress allows clients to compress their connections (ssh -C) once they have logged in. It
	// takes about 2 MiB and much of a processor's time for each connection that uses it.
	Compress bool

	// Bans keeps addresses out; nil is a [BanList] of this server's own. Reload does not change it.
	Bans Bans

	// BanRules decide when Bans keeps an address out.
	BanRules BanRules

	// Safe reports whether an address is never banned. Wrong passwords from there are answered
	// after a second. Nil means that none is safe.
	Safe func(netip.Addr) bool

	// Exempt reports whether an address is never banned or counted, such as a load balancer's that
	// hides the client's own.
	Exempt func(netip.Addr) bool
}

// ErrServerClosed is returned by Serve after Close or Shutdown.
var ErrServerClosed = errors.New("sshd: the server is closed")

// Server accepts SSH connections. It is safe for concurrent use.
//
// A panic in a backend, or in a function of the [Config] or [Access], closes the connection that it
// concerns, as in net/http. All others go on.
type Server struct {
	state   atomic.Pointer[state]
	guard   *guard
	buffers server.Pool
	work    server.Work
	blocks  transport.Buffers
	windows *transport.Windows
	users   users

	// Limits on the log: lines about connections that cannot be accepted, and about panics, lines
	// per address and in total before the login, bytes per user after it.
	crowds   lograte.Limit
	panics   lograte.Limit
	lines    *lograte.Table[netip.Prefix]
	allLines *lograte.Limit
	bytes    *lograte.Table[string]

	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	draining  bool // no new connections or sessions
	retired   bool // nothing is accepted any more, but connections go on
	listeners map[net.Listener]struct{}
	conns     map[*connection]struct{}
	logins    uint64 // so far
	running   sync.WaitGroup
}

// state is replaced by Reload.
type state struct {
	Config
	ssh   *transport.ServerConfig
	whole *slog.Logger // which does not cut strings
}

// New returns a server. It fails if config accepts neither keys nor passwords, or names an unknown
// algorithm.
func New(config Config) (*Server, error) {
	if config.Bans == nil {
		config.Bans = NewBanList()
	}
	s := &Server{
		guard:     newGuard(config.Bans),
		lines:     lograte.NewTable[netip.Prefix](lograte.Lines, guardMost),
		allLines:  lograte.New(strangersLines),
		bytes:     lograte.NewTable[string](userBytes, guardMost),
		windows:   transport.NewWindows(windowGrowth, userGrowth),
		users:     users{all: map[string]*usage{}},
		listeners: map[net.Listener]struct{}{},
		conns:     map[*connection]struct{}{},
	}
	if err := s.Reload(config); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Reload applies config to new connections. Existing ones are not affected. Without HostKeys the
// present keys stay.
func (s *Server) Reload(config Config) error {
	if config.PublicKey == nil && config.Password == nil {
		return errors.New("sshd: nobody could log in: neither keys nor passwords are accepted")
	}
	if old := s.state.Load(); len(config.HostKeys) == 0 && old != nil {
		config.HostKeys = old.HostKeys
	}
	if len(config.HostKeys) == 0 {
		key, _, err := makeKey()
		if err != nil {
			return err
		}
		config.HostKeys = []ssh.Signer{key}
	}
	whole := cmp.Or(config.Logger, slog.Default())
	config.Logger = lograte.Cut(config.Logger)
	setDefault(&config.LoginTimeout, 30*time.Second)
	setDefault(&config.IdleTimeout, 30*time.Minute)
	setDefault(&config.MaxSessions, 10)
	setDefault(&config.MaxLogins, 100)
	setDefault(&config.MaxLoginsEach, 20)
	setDefault(&config.DropStart, max(config.MaxLogins/2, 1))
	setDefault(&config.DropRate, 30)
	setDefault(&config.MaxLoginsKnown, config.MaxLogins/5)
	config.BanRules = config.BanRules.WithDefaults()
	for _, is := range []*func(netip.Addr) bool{&config.Exempt, &config.Safe} {
		if *is == nil {
			*is = func(netip.Addr) bool { return false }
		}
	}
	next := &state{Config: config, whole: whole}
	var err error
	if next.ssh, err = s.serverConfig(&config); err != nil {
		return fmt.Errorf("sshd: %w", err)
	}
	s.state.Store(next)
	return nil
}

// windowGrowth limits how far the windows of all connections together may grow beyond their initial
// 2 MiB: by 14 MiB for 18 connections, or for OpenSSH's clients by 2 MiB for 128. A window is the
// data that a client may send before the session has read it, and so the memory that it can make us
// use. No user gets more than half of the growth.
const (
	windowGrowth = 256 << 20
	userGrowth   = windowGrowth / 2
)

var (
	// strangersLines limits the lines about all connections before their login: 5 MB at once, and
	// less than a gigabyte a day.
	strangersLines = lograte.Rate{Burst: 10_000, PerSecond: 20}

	// userBytes limits the lines about one user: 100,000 files at once, and a gigabyte a day.
	userBytes = lograte.Rate{Burst: 32 << 20, PerSecond: 16 << 10}
)

// loginLimits returns the limits for a new connection.
func (s *state) loginLimits(address netip.Addr) *loginLimits {
	return &loginLimits{start: s.DropStart, rate: s.DropRate, full: s.MaxLogins,
		known: s.MaxLoginsKnown, each: s.MaxLoginsEach, stale: s.LoginTimeout / 10,
		timeout: s.LoginTimeout / 2, safe: s.Safe(address)}
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

// Serve accepts connections on l until the server is closed or accepting fails permanently, and
// closes l.
//
// A connection that does not log in, and has a method HealthCheck() bool that returns true, is
// taken for a load balancer's check of this server: its failure is logged at debug level, does not
// count towards a ban, and its event has Check set.
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
			s.running.Go(func() { s.ServeConn(conn) })
		case s.isClosed():
			return ErrServerClosed
		case !outOfFiles(err):
			return fmt.Errorf("sshd: accepting connections: %w", err)
		default:
			// Connections that end free their descriptors.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			lograte.ByLine(s.state.Load().Logger, &s.crowds).Error("cannot accept connections",
				"error", err)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		}
	}
}

// track registers something that Close ends and waits for. It returns false if the server is
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

// isClosed reports whether no more connections are accepted.
func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining || s.retired
}

// Retire stops accepting connections, and waits until the existing ones have ended, or ctx has,
// whose error it then returns. They go on as before, logins included: another process takes over
// the listeners' sockets.
func (s *Server) Retire(ctx context.Context) error {
	s.mu.Lock()
	s.retired = true
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	return s.wait(ctx)
}

// wait waits until everything has ended, or ctx has.
func (s *Server) wait(ctx context.Context) error {
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
		return ctx.Err()
	}
}

// drain stops accepting, and closes the connections without sessions.
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

// Shutdown stops accepting connections and sessions, waits until the running sessions have ended or
// ctx has, and closes the remaining connections. The error is ctx's if ctx ended first.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drain()
	err := s.wait(ctx)
	if err != nil {
		s.Close()
	}
	return err
}

// Close closes all connections and waits until everything has ended. It always returns nil.
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
