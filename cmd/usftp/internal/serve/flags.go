package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/site"
)

// flags is the command line of serve. sftp-server's letters keep their meaning.
type flags struct {
	site.Flags
	noStrictModes          bool
	authorizedKeys, user   string
	readOnly, stdio        bool
	stderr, compress       bool
	umask, start, facility string
	query                  string
	deny, allow            []string
	given                  func(name string) bool
}

// register adds the flags.
func (s *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	s.given = f.Changed
	s.Flags.Register(f)
	f.StringVar(&s.user, "user", "", "the user `name` to log in with (default: your own)")
	f.StringVar(&s.authorizedKeys, "authorized-keys", "",
		"accept the keys in `file`, in sshd's authorized_keys format; \"none\" generates and prints a password (default ~/.ssh/authorized_keys if it has keys, else none)")
	f.BoolVar(&s.noStrictModes, "no-strict-modes", false,
		"accept the keys even if others could change their file")
	f.BoolVar(&s.compress, "compress", false,
		"let clients compress their connections, as with ssh -C; it takes 2 MiB and processor time for each")
	f.BoolVarP(&s.readOnly, "read-only", "R", false, "refuse all changes")
	f.StringSliceVarP(&s.allow, "allow", "p", nil,
		"allow only these `requests`, a comma-separated list")
	f.StringSliceVarP(&s.deny, "deny", "P", nil, "refuse these `requests`")
	f.StringVarP(&s.umask, "umask", "u", "",
		"clear these permission `bits` (octal) on new files")
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
	for _, name := range inUsftpd {
		f.String(name, "", "")
		f.Lookup(name).Hidden, f.Lookup(name).NoOptDefVal = true, "any"
	}
}

// inUsftpd are flags for which an error names their new place.
var inUsftpd = []string{"config", "metrics"}

// moved returns that error for the first such flag given, or nil.
func (s *flags) moved() error {
	for _, name := range inUsftpd {
		if s.given(name) {
			return fmt.Errorf("serve shares one directory and has no --%s: the server with a configuration file is usftpd --config FILE",
				name)
		}
	}
	return nil
}

// facilities are the log facilities that sftp-server accepts; "" means none.
var facilities = []string{"", "DAEMON", "USER", "AUTH", "AUTHPRIV", "LOCAL0", "LOCAL1", "LOCAL2",
	"LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6", "LOCAL7"}

// onlyFor are flags that apply to only one way of serving.
var onlyFor = map[string][]string{
	"--stdio": {"start-directory", "log-stderr", "log-facility", "query"},
	"DIR": {"user", "authorized-keys", "no-strict-modes", "listen", "host-key", "grace",
		"log-format"},
}

// check checks the command line.
func (s *flags) check(args []string) error {
	switch {
	case s.stdio && len(args) == 1: // it would serve much more than its caller means
		return fmt.Errorf("serve --stdio takes no directory: it serves all files that its user may"+
			" reach, and --start-directory %s is where a session begins", args[0])
	case s.stdio: // two do not count: `scp -D` passes a host and "sftp", which sftp-server ignores
	case len(args) == 0:
		return errors.New("missing operand: serve needs a directory or --stdio")
	case len(args) > 1:
		return errors.New("serve takes one directory")
	}
	for way, names := range onlyFor {
		for _, name := range names {
			if s.given(name) && s.stdio != (way == "--stdio") {
				return fmt.Errorf("--%s is for serving %s", name,
					strings.Replace(way, "DIR", "a directory", 1))
			}
		}
	}
	for _, name := range slices.Concat(s.allow, s.deny) {
		if err := site.KnownOperation(name); err != nil {
			return err
		}
	}
	switch { // an empty variable of a script must not open more
	case s.given("allow") && len(s.allow) == 0:
		return errors.New("--allow needs the name of a request")
	case s.given("authorized-keys") && s.authorizedKeys == "":
		return errors.New("--authorized-keys needs a file, or none")
	}
	if !slices.Contains(facilities, strings.ToUpper(s.facility)) {
		return fmt.Errorf("--log-facility %s: no such facility", s.facility)
	}
	if s.query != "" && !strings.EqualFold(s.query, "requests") {
		return fmt.Errorf("--query %s: must be requests", s.query)
	}
	if _, err := site.ParseUmask(s.umask); err != nil {
		return fmt.Errorf("--umask %s: %w", s.umask, err)
	}
	return s.Flags.Check()
}
