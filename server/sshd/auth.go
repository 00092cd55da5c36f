package sshd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/lograte"
)

// accessKey is the key under which a login passes its Access to the connection, and provedKey the
// key for its proof.
type (
	accessKey struct{}
	provedKey struct{}
)

// proof is a client's proof of identity.
type proof struct{ method, key string }

// proofBy returns the proof by a key, or by the key within a certificate.
func proofBy(key ssh.PublicKey) proof {
	return proof{"publickey", ssh.FingerprintSHA256(transport.PlainKey(key))}
}

var errNoAccess = errors.New("sshd: access denied")

// spareChannels allows a connection channels besides its sessions, which are refused with a reason
// or about to be closed.
const spareChannels = 16

// serverConfig returns the transport's configuration.
func (s *Server) serverConfig(config *Config) (*transport.ServerConfig, error) {
	offer, err := offerWith(config.LegacyAlgorithms)
	if err != nil {
		return nil, err
	}
	c := &transport.ServerConfig{
		Version:      serverVersion,
		HostKeys:     config.HostKeys,
		Algorithms:   offer,
		Buffers:      &s.blocks,
		Windows:      s.windows,
		LoginTimeout: config.LoginTimeout,
		MaxAuthTries: 6, // as in OpenSSH
		MaxChannels:  config.MaxSessions + spareChannels,
	}
	c.Algorithms.Compress = config.Compress
	c.Banner = func(ssh.ConnMetadata) string { return config.Banner }
	for _, name := range config.Ciphers {
		if !slices.Contains(ciphers, name) {
			return nil, fmt.Errorf("unknown cipher %q; use %s", name,
				strings.Join(ciphers, ", "))
		}
	}
	if len(config.Ciphers) > 0 {
		c.Algorithms.Ciphers = config.Ciphers
	}
	if decide := config.PublicKey; decide != nil {
		c.Auth.PublicKeyCallback = func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions,
			error) {
			access, err := decide(conn, key)
			return s.permissions(config, proofBy(key), access, err)
		}
	}
	if config.Password != nil {
		c.Auth.PasswordCallback, c.Auth.KeyboardInteractiveCallback = s.passwords(config)
		c.ChangePassword = s.passwordChange(config)
	}
	return c, nil
}

// logAttempt logs a login attempt. Wrong passwords are warnings: there are at most six per
// connection. Keys are logged for debugging only: there may be many, and clients also offer them
// just to learn whether they would be accepted.
func logAttempt(log *slog.Logger, conn ssh.ConnMetadata, method string, err error) {
	level := slog.LevelDebug
	if !succeeded(err) && (method == "password" || method == "keyboard-interactive") {
		level = slog.LevelWarn
	}
	args := []any{"user", conn.User(), "method", method}
	if err != nil {
		args = append(args, "error", err)
	}
	log.Log(context.Background(), level, "login attempt", args...)
}

// punished is a failure that has been counted against the address.
type punished struct{ error }

func (p punished) Unwrap() error { return p.error }

// attempts records a client's login attempts. Names from a client would be held until its login
// ends, so only known methods are recorded by name.
type attempts struct {
	reports  *server.Reporter
	user     string
	methods  []string // failed ones, each listed once
	punished bool     // at least one has been counted
	refused  error    // why the user is kept out altogether, or nil
}

// knownMethods are those of RFC 4252, RFC 4256 and RFC 4462.
var knownMethods = []string{"publickey", "password", "keyboard-interactive", "hostbased",
	"gssapi-with-mic", "gssapi-keyex"}

// noting returns config for one connection, whose attempts it records.
func (a *attempts) noting(config *transport.ServerConfig) *transport.ServerConfig {
	own := *config
	own.AuthLog = func(conn ssh.ConnMetadata, method string, err error) {
		a.user = conn.User()
		if errors.As(err, new(punished)) {
			a.punished = true
		}
		if errors.Is(err, ErrNotAdmitted) {
			a.refused = err
		}
		if method != "none" && !slices.Contains(knownMethods, method) {
			method = "unknown"
		}
		if err != nil && method != "none" && !slices.Contains(a.methods, method) {
			a.methods = append(a.methods, method)
		}
		logAttempt(a.reports.Logger, conn, method, err)
	}
	return &own
}

// weight returns the weight of a connection that ended without a login. Wrong passwords have
// already been counted one by one. Clients with several keys try them all, so keys count once, and
// so does any other attempt: a question left unanswered, a method that we do not have.
func (a *attempts) weight(conn *connection, err error) float64 {
	switch {
	case a.punished, conn.isCheck(), !conn.heard.Load(): // the last may be a check, too
		return 0
	case len(a.methods) > 0:
		return wrongLogin
	case errors.Is(err, os.ErrDeadlineExceeded):
		return timedOut
	}
	return noLogin
}

func (s *Server) delay(answer time.Duration) {
	select {
	case <-time.After(answer):
	case <-s.ctx.Done():
	}
}

var errUserBanned = errors.New("passwords of this user from this address are refused for now")

// refuses reports whether a password is refused unchecked, since too many of this user's have been
// wrong from there. Keys are still checked: nobody guesses them, and a key's owner must not be shut
// out by others guessing behind the same address.
func (s *Server) refuses(config *Config, end net.Addr, user string) bool {
	address := addressOf(end)
	if config.Exempt(address) || config.Safe(address) || !s.userBanned(Network(address), user) {
		return false
	}
	s.delay(s.blame(config, end, "", noLogin))
	return true
}

func (s *Server) userBanned(network netip.Prefix, user string) bool {
	return user != "" && len(strings.TrimSuffix(user, afterKey)) <= longestName &&
		s.guard.bans.Banned(Source{network, user})
}

// blame counts a failed login against the user at its address, and against the address, and returns
// the delay for the answer. If the user is banned there it counts for little, so that a program
// that retries forever with a wrong key or password does not shut out all others.
func (s *Server) blame(config *Config, end net.Addr, user string, weight float64) time.Duration {
	address := addressOf(end)
	if config.Exempt(address) || weight == 0 {
		return 0
	}
	network := Network(address)
	var delay time.Duration
	switch {
	case user == "" || len(strings.TrimSuffix(user, afterKey)) > longestName:
	case !config.Safe(address) && s.userBanned(network, user):
		weight = min(weight, noLogin)
	default:
		delay = s.count(config, end, Source{network, user}, weight)
	}
	return max(delay, s.count(config, end, Source{Network: network}, weight))
}

// count counts a failed login against one source.
func (s *Server) count(config *Config, end net.Addr, source Source, weight float64) time.Duration {
	if config.Safe(addressOf(end)) {
		return safeDelay
	}
	delay, ban := s.guard.bans.Failed(s.ctx, source, weight, &config.BanRules)
	if ban > 0 {
		kind := server.AddressBanned
		if source.User != "" {
			kind = server.UserBanned
		}
		s.strangers(config, end).Report(server.Event{Kind: kind,
			User: strings.TrimSuffix(source.User, afterKey), Took: ban})
	}
	return delay
}

// safeDelay delays the answer to a wrong password from an address that is never banned.
const safeDelay = time.Second

// strangers returns the reporter for a connection before its login. Its lines are limited by
// address and in total, since addresses are unlimited.
func (s *Server) strangers(config *Config, end net.Addr) *server.Reporter {
	log := lograte.ByLine(config.Logger.With("remote", end.String()), s.allLines)
	if address := addressOf(end); !config.Exempt(address) {
		log = lograte.ByLine(log, s.lines.Of(Network(address)))
	}
	return &server.Reporter{Events: about(config.Events, end, ""), Logger: log}
}

// about returns a function that adds address and user to events and passes them on. Log lines get
// both from their logger.
func about(events func(server.Event), end net.Addr, user string) func(server.Event) {
	if events == nil {
		return nil
	}
	remote := end.String()
	return func(e server.Event) {
		e.Remote = remote
		if user != "" {
			e.User = user
		}
		events(e)
	}
}

// gateFor returns a gate whose events name the client and the user.
func gateFor(gate server.Gate, end net.Addr, user string) server.Gate {
	if gate == nil {
		return nil
	}
	remote := end.String()
	return func(e server.Event) (func(error), error) {
		e.Remote, e.User = remote, user
		return gate(e)
	}
}

// addressOf returns a network address without its port, and without a zone, with which no prefix
// would contain it; the zero Addr if there is none.
func addressOf(end net.Addr) netip.Addr {
	if tcp, ok := end.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	if end == nil {
		return netip.Addr{}
	}
	host, _, err := net.SplitHostPort(end.String())
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(strings.Trim(host, "[]"))
	return address.Unmap().WithZone("")
}
