package site

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/server"
)

// Flags are the flags of both programs.
type Flags struct {
	Format           string // of the log
	listen, hostKeys []string
	logLevel         string
	verbose          bool
	grace            time.Duration
	given            func(name string) bool
}

const (
	// defaultListen is reachable only from this machine: serving a network is the operator's
	// decision. The port is not ssh's, which is in use and needs privileges, but the one that most
	// separate SFTP servers use.
	defaultListen = "127.0.0.1:2022"

	// defaultGrace is how long running sessions may continue once the server is asked to end.
	defaultGrace = 30 * time.Second
)

// Register adds the flags to a flag set.
func (s *Flags) Register(f *pflag.FlagSet) {
	s.given = f.Changed
	f.StringArrayVar(&s.listen, "listen", nil, "listen on `address`:port ("+defaultListen+
		" when not given; port 0 picks a free port, :2022 listens on all addresses); may be repeated")
	f.StringArrayVar(&s.hostKeys, "host-key", nil,
		"use the private host key in `file`, and create it if missing; may be repeated")
	f.DurationVar(&s.grace, "grace", defaultGrace,
		"when stopped, give running sessions this `time` to finish")
	f.StringVar(&s.Format, "log-format", "text", "log as `text` or json")
	cmdline.Values(f, "log-format", "text", "json")
	f.StringVarP(&s.logLevel, "log-level", "l", "",
		"log at this `level` and above: quiet, error, info (default) or debug; sftp-server's names work too")
	cmdline.Values(f, "log-level", "quiet", "error", "info", "debug")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "like --log-level debug")
}

// Check returns an error if a flag is invalid.
func (s *Flags) Check() error {
	if s.Format != "text" && s.Format != "json" {
		return fmt.Errorf("--log-format %s: must be text or json", s.Format)
	}
	if _, err := ParseLevel(s.logLevel); err != nil {
		return fmt.Errorf("--log-level %s: %w", s.logLevel, err)
	}
	if s.grace < 0 {
		return fmt.Errorf("--grace %s: a time cannot be negative", s.grace)
	}
	return nil
}

// Override lets the command line take precedence over a file.
func (s *Flags) Override(made *Settings) {
	if len(s.listen) > 0 {
		made.Listen = s.listen
	}
	if len(s.hostKeys) > 0 {
		made.HostKeys = s.hostKeys
	}
	if s.given("grace") || made.Grace == 0 {
		made.Grace = s.grace
	}
	if s.given("log-format") || made.LogFormat == "" {
		made.LogFormat = s.Format
	}
	made.LogLevel = s.Level(made.LogLevel)
}

// Level returns the log level.
func (s *Flags) Level(otherwise slog.Level) slog.Level {
	if s.verbose {
		return slog.LevelDebug
	}
	if s.logLevel == "" {
		return otherwise
	}
	level, _ := ParseLevel(s.logLevel)
	return level
}

// quiet is above all levels.
const quiet = slog.Level(100)

// ParseLevel accepts the names of slog's levels and of OpenSSH's (sshd_config(5), LogLevel).
func ParseLevel(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "quiet", "fatal":
		return quiet, nil
	case "error", "warn":
		return slog.LevelWarn, nil
	case "", "info", "verbose":
		return slog.LevelInfo, nil
	case "debug", "debug1", "debug2", "debug3":
		return slog.LevelDebug, nil
	}
	return 0, errors.New("must be quiet, error, info or debug")
}

// ParseUmask parses permission bits; "" means none.
func ParseUmask(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	bits, err := strconv.ParseUint(text, 8, 16)
	if err != nil || bits > 0o777 {
		return 0, errors.New("must be an octal number up to 777")
	}
	return fs.FileMode(bits), nil
}

// KnownOperation returns an error unless there is a request of that name.
func KnownOperation(name string) error {
	if slices.Contains(server.Operations(), name) {
		return nil
	}
	return fmt.Errorf("unknown request %q; use %s", name,
		strings.Join(server.Operations(), ", "))
}

// CheckAddress returns an error unless address is one to listen on.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, "/ ") {
		return fmt.Errorf("%q is not an address to listen on: use address:port, such as %s or [::1]:2022", address, defaultListen)
	}
	return nil
}
