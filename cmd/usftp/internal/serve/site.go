package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/cmd/usftp/internal/ui"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
)

// A site is a running server and what it serves.
type site struct {
	*ui.App
	flags *flags
	dir   string // DIR; "" with --config

	log      *slog.Logger
	level    slog.LevelVar
	metrics  *metrics  // nil without --metrics
	checks   sync.Map  // addresses of connections that balancers make for themselves
	started  *settings // those read first, of which some cannot change
	settings *settings // in effect now

	sshd      *sshd.Server
	directory *sshd.Directory
	trees     map[string]*tree
	password  string // the temporary one, once generated

	recounting sync.WaitGroup // counting of quotas after reloads
}

// settings is what is served, to whom and how, from the command line or a file; each reload makes a
// new one.
type settings struct {
	sshd        sshd.Config // without the functions that authenticate
	listen      []string
	metrics     string
	grace       time.Duration
	logFormat   string
	logLevel    slog.Level
	proxies     []netip.Prefix
	hostKeys    []string // files
	users       []account
	authorities *sshd.Authorities
	revoked     *sshd.RevocationList
	warnings    []string
}

// An account is a user whose directory has not been opened yet.
type account struct {
	sshd.User
	root         string
	quota        [2]int64 // bytes and files
	passwordHash string
}

// start makes the server, without listening yet.
func (s *site) start() error {
	var err error
	if s.started, err = s.read(); err != nil {
		return err
	}
	if s.started.metrics != "" {
		s.metrics = newMetrics()
	}
	s.log = s.newLog(s.started.logFormat)
	return s.apply(s.started)
}

// read makes settings from the flags or the file that they name.
func (s *site) read() (*settings, error) {
	var made *settings
	var err error
	if s.dir != "" {
		made, err = s.fromFlags()
	} else {
		made, err = readConfig(s.flags.config)
	}
	if err != nil {
		return nil, err
	}
	s.flags.override(made)
	if len(made.hostKeys) == 0 {
		name, err := defaultHostKey()
		if err != nil {
			return nil, err
		}
		made.hostKeys = []string{name}
	}
	for _, address := range append(made.listen, made.metrics) {
		if address != "" {
			err = errors.Join(err, checkAddress(address))
		}
	}
	return made, err
}

// override lets the command line take precedence over a file.
func (s *flags) override(made *settings) {
	if len(s.listen) > 0 {
		made.listen = s.listen
	}
	if len(made.listen) == 0 {
		made.listen = []string{defaultListen}
	}
	if len(s.hostKeys) > 0 {
		made.hostKeys = s.hostKeys
	}
	if s.metrics != "" {
		made.metrics = s.metrics
	}
	made.metrics = loopback(made.metrics)
	if s.given("grace") || made.grace == 0 {
		made.grace = s.grace
	}
	if s.given("log-format") || made.logFormat == "" {
		made.logFormat = s.logFormat
	}
	made.logLevel = s.level(made.logLevel)
}

// fromFlags returns the settings for serving DIR to one user.
func (s *site) fromFlags() (*settings, error) {
	umask, err := parseUmask(s.flags.umask)
	if err != nil {
		return nil, err
	}
	one := account{root: s.dir}
	one.Policy = server.Policy{ReadOnly: s.flags.readOnly, Allowed: s.flags.allow,
		Denied: s.flags.deny, Umask: umask}
	if one.Name = s.flags.user; one.Name == "" {
		if one.Name, err = callersName(); err != nil {
			return nil, err
		}
	}
	made := &settings{}
	one.Keys, err = s.authorizedKeys()
	if err != nil {
		return nil, err
	}
	if one.Keys != nil {
		made.warnings = one.Keys.Warnings
	} else {
		if s.password == "" {
			s.password = rand.Text()
		}
		// The password has 128 random bits, so a slow hash would gain nothing.
		hash, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost)
		if err != nil {
			return nil, err
		}
		one.passwordHash = string(hash)
	}
	made.users = []account{one}
	return made, nil
}

// callersName returns the name of the user who runs this; on Windows without the domain.
func callersName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("the user's name is not known: %w; give one with --user", err)
	}
	return u.Username[strings.LastIndex(u.Username, `\`)+1:], nil
}

// authorizedKeys returns the keys that --authorized-keys selects; nil for a temporary password.
func (s *site) authorizedKeys() (*sshd.AuthorizedKeys, error) {
	name := s.flags.authorizedKeys
	own := name == ""
	if own {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil
		}
		name = filepath.Join(home, ".ssh", "authorized_keys")
	} else if name == "none" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil && !own {
		return nil, fileError("cannot read", name, err)
	}
	if err == nil && !s.flags.noStrictModes {
		if err := sshd.StrictModes(name); err != nil {
			return nil, fmt.Errorf("%w, or give --no-strict-modes", err)
		}
	}
	keys, count := parseKeys(name, data)
	switch {
	case count > 0:
		return keys, nil
	case own:
		return nil, nil
	}
	return nil, errors.New(strings.Join(append([]string{"there is no usable key in " + name},
		keys.Warnings...), "; "))
}

// parseKeys parses authorized_keys and counts the usable keys.
func parseKeys(name string, data []byte) (keys *sshd.AuthorizedKeys, count int) {
	keys = sshd.ParseAuthorizedKeys(name, data)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			count++
		}
	}
	return keys, count - len(keys.Warnings)
}

// defaultHostKey returns where to keep a key that clients should recognize later.
func defaultHostKey() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no directory for the host key (%w): name a file with --host-key", err)
	}
	dir = filepath.Join(dir, "usftp")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fileError("cannot make the directory for the host key,", dir, err)
	}
	return filepath.Join(dir, "host_ed25519_key"), nil
}

// loadHostKeys refuses a key that others can read, as sshd does: they could impersonate the server.
func loadHostKeys(names []string) ([]ssh.Signer, error) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("others can read the host key %s (mode %04o): run chmod 600 on it", name, info.Mode().Perm())
		}
	}
	keys, err := sshd.LoadHostKeys(names...)
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return nil, fileError("cannot read or create the host key", path.Path, err)
	}
	return keys, err
}

// apply puts settings into effect, initially or after a reload.
func (s *site) apply(made *settings) error {
	if !sameListening(s.started, made) {
		s.log.Warn("changes of addresses, trusted proxies, grace and the log format need a restart")
	}
	accounts, keys, err := s.accounts(made)
	if err != nil {
		return err
	}
	config := made.sshd
	config.Logger = s.log
	if config.HostKeys, err = loadHostKeys(made.hostKeys); err != nil {
		return err
	}
	first := s.directory == nil
	if first {
		s.directory, err = sshd.NewDirectory(accounts)
	} else {
		err = s.directory.Set(accounts)
	}
	if err != nil {
		return err
	}
	if keys {
		config.PublicKey = s.directory.PublicKey
	}
	if accounts.Passwords != nil {
		config.Password = s.directory.Password
	}
	s.settings = made
	s.level.Set(made.logLevel)
	for _, warning := range made.warnings {
		s.log.Warn("a line of authorized_keys is ignored: " + warning)
	}
	if !first {
		return s.sshd.Reload(config)
	}
	s.sshd, err = sshd.New(config)
	return err
}

func sameListening(a, b *settings) bool {
	return fmt.Sprint(a.listen, a.metrics, a.proxies, a.logFormat, a.grace) == fmt.Sprint(b.listen,
		b.metrics, b.proxies, b.logFormat, b.grace)
}

// accounts opens what the users will see. keys reports whether keys or certificates let anybody in.
func (s *site) accounts(made *settings) (accounts sshd.Accounts, keys bool, err error) {
	accounts.Authorities, accounts.Revoked = made.authorities, made.revoked
	keys = made.authorities != nil
	var passwords strings.Builder
	for _, one := range made.users {
		t, err := s.tree(one.root)
		if err != nil {
			return accounts, false, err
		}
		one.FS = t.fs
		if one.quota != [2]int64{} {
			one.Policy.Quota = t.quota(one.quota)
		}
		keys = keys || one.Keys != nil
		if one.passwordHash != "" {
			fmt.Fprintf(&passwords, "%s:%s\n", one.Name, one.passwordHash)
		}
		accounts.Users = append(accounts.Users, one.User)
	}
	if passwords.Len() > 0 {
		accounts.Passwords, err = sshd.ParsePasswords("passwords", []byte(passwords.String()))
	}
	return accounts, keys, err
}
