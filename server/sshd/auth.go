package sshd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// accessKey is where an Access travels from a login to the connection.
type accessKey struct{}

var errNoAccess = errors.New("sshd: access denied")

// serverConfig makes what x/crypto/ssh asks of logins.
func (s *Server) serverConfig(config *Config) *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		ServerVersion: serverVersion,
		MaxAuthTries:  6, // as OpenSSH has it
	}
	c.Ciphers = config.Ciphers
	for _, key := range config.HostKeys {
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
	return c
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

// logAttempt writes a line for each attempt; those that clients make just to learn what there is are for debugging.
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

// punish counts a wrong password against its address, and lets the answer wait.
func (s *Server) punish(config *Config, conn ssh.ConnMetadata) {
	address := addressOf(conn.RemoteAddr())
	if config.Exempt(address) {
		return
	}
	delay, ban := s.guard.failed(address)
	if ban > 0 {
		config.Logger.Warn("address banned", "remote", conn.RemoteAddr().String(), "seconds", ban.Seconds())
	}
	select {
	case <-time.After(delay):
	case <-s.ctx.Done():
	}
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
