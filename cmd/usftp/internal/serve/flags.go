package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/server"
)

// flags is the command line of serve. Letters that sftp-server has keep their meaning.
type flags struct {
	listen, hostKeys       []string
	noStrictModes          bool
	authorizedKeys, user   string
	config                 string
	metrics                string
	readOnly, stdio        bool
	logFormat, logLevel    string
	verbose, stderr        bool
	grace                  time.Duration
	umask, start, facility string
	query                  string
	deny, allow            []string
	given                  func(name string) bool
}

const (
	// defaultListen is reachable only from this machine: serving a network takes a decision. The
	// port is not ssh's, which is in use and needs privileges, but the one that most separate SFTP
	// servers use.
	defaultListen = "127.0.0.1:2022"

	// defaultMetrics is the address of --metrics without a value.
	defaultMetrics = "127.0.0.1:9722"

	// defaultGrace is how long running sessions may continue once the server is asked to end.
	defaultGrace = 30 * time.Second
)

// register is the table of flags.
func (s *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringArrayVar(&s.listen, "listen", nil, "listen on `address`:port ("+defaultListen+
		" when not given; port 0 picks a free port, :2022 listens on all addresses); may be repeated")
	f.StringVar(&s.user, "user", "", "the user `name` to log in with (default: your own)")
	f.StringVar(&s.authorizedKeys, "authorized-keys", "",
		"accept the keys in `file`, in sshd's authorized_keys format; \"none\" generates and prints a password (default ~/.ssh/authorized_keys if it has keys, else none)")
	f.BoolVar(&s.noStrictModes, "no-strict-modes", false,
		"accept the keys even if others could change their file")
	f.StringArrayVar(&s.hostKeys, "host-key", nil,
		"use the private host key in `file`, and create it if missing; may be repeated")
	f.BoolVarP(&s.readOnly, "read-only", "R", false, "refuse all changes")
	f.StringSliceVarP(&s.allow, "allow", "p", nil,
		"allow only these `requests`, a comma-separated list")
	f.StringSliceVarP(&s.deny, "deny", "P", nil, "refuse these `requests`")
	f.StringVarP(&s.umask, "umask", "u", "",
		"clear these permission `bits` (octal) on new files")
	f.StringVar(&s.config, "config", "",
		"serve the users that `file` describes, instead of DIR")
	f.StringVar(&s.metrics, "metrics", "",
		"serve metrics for Prometheus on `address`:port ("+defaultMetrics+" without an address)")
	f.Lookup("metrics").NoOptDefVal = defaultMetrics
	f.DurationVar(&s.grace, "grace", defaultGrace,
		"when stopped, give running sessions this `time` to finish")
	f.StringVar(&s.logFormat, "log-format", "text", "log as `text` or json")
	opt.Values(f, "log-format", "text", "json")
	f.StringVarP(&s.logLevel, "log-level", "l", "",
		"log at this `level` and above: quiet, error, info (default) or debug; sftp-server's names work too")
	opt.Values(f, "log-level", "quiet", "error", "info", "debug")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "like --log-level debug")
	f.BoolVar(&s.stdio, "stdio", false,
		"serve one client on standard input and output, as sftp-server does")
	f.StringVarP(&s.start, "start-directory", "d", "",
		"with --stdio: relative paths start in `dir`; %d is the home directory, %u the user, %% a percent sign")
	f.BoolVarP(&s.stderr, "log-stderr", "e", false,
		"with --stdio: log to standard error; otherwise nothing is logged")
	f.StringVarP(&s.facility, "log-facility", "f", "", "") // syslog's facility, which is not used
	f.Lookup("log-facility").Hidden = true
	f.StringVarP(&s.query, "query", "Q", "",
		"with --stdio: print the names of all `requests`, and exit")
}

// facilities are those that sftp-server accepts; "" means none.
var facilities = []string{"", "DAEMON", "USER", "AUTH", "AUTHPRIV", "LOCAL0", "LOCAL1", "LOCAL2",
	"LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6", "LOCAL7"}

// onlyFor are flags that apply to only one way of serving.
var onlyFor = map[string][]string{
	"--stdio":         {"start-directory", "log-stderr", "log-facility", "query"},
	"DIR":             {"user", "authorized-keys", "no-strict-modes"},
	"DIR or --stdio":  {"read-only", "allow", "deny", "umask"},
	"DIR or --config": {"listen", "host-key", "metrics", "grace", "log-format"},
}

// check checks the command line.
func (s *flags) check(args []string) error {
	ways := len(args)
	way := "DIR"
	if s.stdio { // operands do not count: `scp -D` passes some, which sftp-server ignores
		ways, way = 1, "--stdio"
	}
	if s.given("config") {
		ways, way = ways+1, "--config"
	}
	if ways == 0 {
		return errors.New("missing operand: serve needs a directory, --config or --stdio")
	}
	if ways > 1 {
		return errors.New("give only one of a directory, --config and --stdio")
	}
	for _, ok := range []string{"DIR", "--stdio", "DIR or --stdio", "DIR or --config"} {
		for _, name := range onlyFor[ok] {
			if s.given(name) && !slices.Contains(strings.Split(ok, " or "), way) {
				return fmt.Errorf("--%s is for serving %s", name,
					strings.Replace(ok, "DIR", "a directory", 1))
			}
		}
	}
	for _, name := range slices.Concat(s.allow, s.deny) {
		if err := knownOperation(name); err != nil {
			return err
		}
	}
	if s.logFormat != "text" && s.logFormat != "json" {
		return fmt.Errorf("--log-format %s: it must be text or json", s.logFormat)
	}
	if !slices.Contains(facilities, strings.ToUpper(s.facility)) {
		return fmt.Errorf("--log-facility %s: no such facility", s.facility)
	}
	if s.query != "" && !strings.EqualFold(s.query, "requests") {
		return fmt.Errorf("--query %s: it must be requests", s.query)
	}
	if _, err := parseLevel(s.logLevel); err != nil {
		return fmt.Errorf("--log-level %s: %w", s.logLevel, err)
	}
	if s.grace < 0 {
		return fmt.Errorf("--grace %s: a time cannot be negative", s.grace)
	}
	if _, err := parseUmask(s.umask); err != nil {
		return fmt.Errorf("--umask %s: %w", s.umask, err)
	}
	return nil
}

// level returns the log level.
func (s *flags) level(otherwise slog.Level) slog.Level {
	if s.verbose {
		return slog.LevelDebug
	}
	if s.logLevel == "" {
		return otherwise
	}
	level, _ := parseLevel(s.logLevel)
	return level
}

// quiet is above all levels.
const quiet = slog.Level(100)

// parseLevel accepts the names of slog's levels and of OpenSSH's (sshd_config(5), LogLevel).
func parseLevel(name string) (slog.Level, error) {
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
	return 0, errors.New("it must be quiet, error, info or debug")
}

func parseUmask(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	bits, err := strconv.ParseUint(text, 8, 16)
	if err != nil || bits > 0o777 {
		return 0, errors.New("it must be an octal number up to 777")
	}
	return fs.FileMode(bits), nil
}

func knownOperation(name string) error {
	if slices.Contains(server.Operations(), name) {
		return nil
	}
	return fmt.Errorf("unknown request %q; use %s", name,
		strings.Join(server.Operations(), ", "))
}

// loopback completes an address that only this machine should reach: without a host it becomes the
// loopback address.
func loopback(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// checkAddress returns what is wrong with an address to listen on.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, "/ ") {
		return fmt.Errorf("%q is not an address to listen on: use address:port, such as %s or [::1]:2022", address, defaultListen)
	}
	return nil
}

// parsePrefix parses an address or a range of addresses.
func parsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a range such as 10.0.0.0/8",
			text)
	}
	return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
}
