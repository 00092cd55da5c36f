package sshd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// accessKey is where an Access travels from a login to the connection.
type accessKey struct{}

var errNoAccess = errors.New("sshd: access denied")

// serverConfig makes what x/crypto/ssh asks of logins.
func (s *Server) serverConfig(config *Config) (*ssh.ServerConfig, error) {
	offer, err := offerWith(config.LegacyAlgorithms)
	if err != nil {
		return nil, err
	}
	c := &ssh.ServerConfig{
		ServerVersion:           serverVersion,
		MaxAuthTries:            6, // as OpenSSH has it
		PublicKeyAuthAlgorithms: offer.signatures,
	}
	c.KeyExchanges, c.Ciphers, c.MACs = offer.keyExchanges, offer.ciphers, offer.macs
	if len(config.Ciphers) > 0 {
		c.Ciphers = config.Ciphers
	}
	for _, key := range config.HostKeys {
		if key, err = offer.hostKey(key); err != nil {
			return nil, fmt.Errorf("a host key: %w", err)
		}
		c.AddHostKey(key)
	}
	if decide := config.PublicKey; decide != nil {
		c.PublicKeyCallback = func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
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
		c.PasswordCallback = func(conn ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return check(conn, string(password))
		}
		c.KeyboardInteractiveCallback = func(conn ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
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
	c.AuthLogCallback = func(conn ssh.ConnMetadata, method string, err error) {
		logAttempt(config.Logger, conn, method, err)
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

// logAttempt writes a line for each attempt; those that clients make just to learn what there is
// are for debugging.
func logAttempt(log *slog.Logger, conn ssh.ConnMetadata, method string, err error) {
	level := slog.LevelInfo
	switch {
	case method == "none" || err == nil:
		level = slog.LevelDebug
	case method == "password" || method == "keyboard-interactive":
		level = slog.LevelWarn
	}
	args := []any{"remote", conn.RemoteAddr().String(), "user", conn.User(), "method", method}
	if err != nil {
		args = append(args, "error", err)
	}
	log.Log(context.Background(), level, "login attempt", args...)
}

// attempts are what a client has tried to log in with.
type attempts struct {
	user    string
	methods []string // that failed, each once
}

// noting is config for one connection, which notes what is tried there.
func (a *attempts) noting(config *ssh.ServerConfig) *ssh.ServerConfig {
	own, log := *config, config.AuthLogCallback
	own.AuthLogCallback = func(conn ssh.ConnMetadata, method string, err error) {
		a.user = conn.User()
		if err != nil && method != "none" && !slices.Contains(a.methods, method) {
			a.methods = append(a.methods, method)
		}
		log(conn, method, err)
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

// onlyKeys tells whether keys were tried, all in vain, and nothing else was: each wrong password
// has been counted when it came, and keys are as a client goes through those that it has.
func (a *attempts) onlyKeys() bool { return slices.Equal(a.methods, []string{"publickey"}) }

// punish counts a wrong password against its address, and lets the answer wait.
func (s *Server) punish(config *Config, conn ssh.ConnMetadata) {
	select {
	case <-time.After(s.blame(config, conn.RemoteAddr())):
	case <-s.ctx.Done():
	}
}

// blame counts a failed login against its address, and returns how long an answer should wait.
func (s *Server) blame(config *Config, end net.Addr) time.Duration {
	address := addressOf(end)
	if config.Exempt(address) {
		return 0
	}
	delay, ban := s.guard.failed(address)
	if ban > 0 {
		config.Logger.Warn("address banned", "remote", end.String(), "seconds", ban.Seconds())
	}
	return delay
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
