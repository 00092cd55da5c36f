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
	"github.com/usftp/usftp/server/internal/lograte"
)

// accessKey is where an Access travels from a login to the connection.
type accessKey struct{}

var errNoAccess = errors.New("sshd: access denied")

// spareChannels are those of a connection beside its sessions: to be refused with a reason, or
// about to be closed.
const spareChannels = 16

// serverConfig makes what the transport asks of logins.
func (s *Server) serverConfig(config *Config) (*transport.ServerConfig, error) {
	offer, err := offerWith(config.LegacyAlgorithms)
	if err != nil {
		return nil, err
	}
	c := &transport.ServerConfig{
		Version:      serverVersion,
		HostKeys:     config.HostKeys,
		Algorithms:   offer,
		PreferAES:    hasAES && len(config.Ciphers) == 0,
		Buffers:      &s.blocks,
		Windows:      s.windows,
		LoginTimeout: config.LoginTimeout,
		MaxAuthTries: 6, // as OpenSSH has it
		MaxChannels:  config.MaxSessions + spareChannels,
	}
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
		c.Auth.PublicKeyCallback = func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return permissions(decide(conn, key))
		}
	}
	if decide := config.Password; decide != nil {
		check := func(conn ssh.ConnMetadata, password string) (*ssh.Permissions, error) {
			result, err := permissions(decide(conn, password))
			if err != nil {
				s.punish(config, conn)
			}
			return result, err
		}
		c.Auth.PasswordCallback = func(conn ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return check(conn, string(password))
		}
		c.Auth.KeyboardInteractiveCallback = func(conn ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil {
				return nil, err
			}
			if len(answers) != 1 {
				return nil, errNoAccess
			}
			return check(conn, answers[0])
		}
	}
	return c, nil
}

func permissions(access *Access, err error) (*ssh.Permissions, error) {
	if err == nil && (access == nil || access.FS == nil) {
		err = errNoAccess
	}
	if err != nil {
		return nil, err
	}
	return &ssh.Permissions{ExtraData: map[any]any{accessKey{}: access}}, nil
}

// logAttempt writes a line for each attempt. Wrong passwords are six in a connection at most; keys
// may be many, which clients try just to learn whether they would do, and are for debugging.
func logAttempt(log *slog.Logger, conn ssh.ConnMetadata, method string, err error) {
	level := slog.LevelDebug
	if err != nil && (method == "password" || method == "keyboard-interactive") {
		level = slog.LevelWarn
	}
	args := []any{"user", conn.User(), "method", method}
	if err != nil {
		args = append(args, "error", err)
	}
	log.Log(context.Background(), level, "login attempt", args...)
}

// attempts are what a client has tried to log in with.
type attempts struct {
	log     *slog.Logger
	user    string
	methods []string // that failed, each once
}

// noting is config for one connection, which notes what is tried there.
func (a *attempts) noting(config *transport.ServerConfig) *transport.ServerConfig {
	own := *config
	own.AuthLog = func(conn ssh.ConnMetadata, method string, err error) {
		a.user = conn.User()
		if err != nil && method != "none" && !slices.Contains(a.methods, method) {
			a.methods = append(a.methods, method)
		}
		logAttempt(a.log, conn, method, err)
	}
	return &own
}

// args are the fields of a line that tells of them.
func (a *attempts) args() (args []any) {
	if a.user != "" {
		args = append(args, "user", a.user)
	}
	if len(a.methods) > 0 {
		args = append(args, "tried", strings.Join(a.methods, ","))
	}
	return args
}

// weight is what a connection that ended without a login is held to be worth besides. Each wrong
// password has been counted when it came; keys are gone through by every client that has several,
// and count once.
func (a *attempts) weight(conn *connection, err error) float64 {
	switch {
	case slices.Equal(a.methods, []string{"publickey"}):
		return wrongLogin
	case len(a.methods) > 0 || !conn.heard.Load(): // or a balancer that looks whether we are there
		return 0
	case errors.Is(err, os.ErrDeadlineExceeded):
		return timedOut
	}
	return noLogin
}

// punish counts a wrong password against its address, and lets the answer wait.
func (s *Server) punish(config *Config, conn ssh.ConnMetadata) {
	select {
	case <-time.After(s.blame(config, conn.RemoteAddr(), wrongLogin)):
	case <-s.ctx.Done():
	}
}

// blame counts a failed login against its address, and returns how long an answer should wait.
func (s *Server) blame(config *Config, end net.Addr, weight float64) time.Duration {
	address := addressOf(end)
	if config.Exempt(address) || weight == 0 {
		return 0
	}
	delay, ban := s.guard.failed(address, weight)
	if ban > 0 {
		s.strangers(config, end).Warn("address banned", "seconds", ban.Seconds())
	}
	return delay
}

// strangers returns the logger for a connection before its login. Its lines are limited by address,
// and altogether, as there is no end of addresses.
func (s *Server) strangers(config *Config, end net.Addr) *slog.Logger {
	log := lograte.ByLine(config.Logger.With("remote", end.String()), s.allLines)
	address := addressOf(end)
	if config.Exempt(address) {
		return log
	}
	return lograte.ByLine(log, s.lines.Of(network(address)))
}

// addressOf returns the address of a network's end; the zero Addr for what has none.
func addressOf(end net.Addr) netip.Addr {
	if tcp, ok := end.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	if end == nil {
		return netip.Addr{}
	}
	host, _, err := net.SplitHostPort(end.String())
	if err != nil {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(strings.Trim(host, "[]"))
	return address.Unmap()
}
