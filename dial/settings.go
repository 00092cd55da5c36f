package dial

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// keywords are one host's resolved ssh_config keywords, by name in lower case, as `ssh -G`
// prints them. Most have one value.
type keywords map[string][]string

func (w keywords) get(key string) string {
	if v := w[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// set reports whether a keyword has a value; "none" unsets most of them.
func (w keywords) set(key string) bool {
	v := w.get(key)
	return v != "" && !strings.EqualFold(v, "none")
}

// yes reads a flag. `ssh -G` prints some as yes/no and others as true/false, which differs between
// versions.
func (w keywords) yes(key string, otherwise bool) bool {
	switch strings.ToLower(w.get(key)) {
	case "":
		return otherwise
	case "no", "false", "off", "none":
		return false
	}
	return true // "unbound" and "host-bound" of PubkeyAuthentication are yes as well
}

func (w keywords) number(key string, otherwise int) (int, error) {
	v := w.get(key)
	if v == "" || strings.EqualFold(v, "none") {
		return otherwise, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s %q in the ssh configuration is not a number", key, v)
	}
	return n, nil
}

// maxSeconds keeps a time from the configuration within a time.Duration.
const maxSeconds = 1 << 31

// duration parses a keyword's time.
func (w keywords) duration(key string) (time.Duration, error) { return duration(key, w.get(key)) }

// duration parses a time: seconds, or sshd_config's TIME FORMATS such as 1h30m.
func duration(key, v string) (time.Duration, error) {
	if v == "" || strings.EqualFold(v, "none") {
		return 0, nil
	}
	bad := fmt.Errorf("%s %q in the ssh configuration is not a time", key, v)
	var total, n int64
	digits := false
	for i := 0; i < len(v); i++ {
		if c := v[i]; c >= '0' && c <= '9' {
			if n = n*10 + int64(c-'0'); n > maxSeconds {
				return 0, bad
			}
			digits = true
			continue
		}
		unit, ok := map[byte]int64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400,
			'w': 7 * 86400}[v[i]|0x20]
		if !ok || !digits {
			return 0, bad
		}
		total, n, digits = total+n*unit, 0, false
	}
	if total += n; total > maxSeconds {
		return 0, bad
	}
	return time.Duration(total) * time.Second, nil
}

// stackEnv selects x/crypto/ssh instead of our own transport, for diagnosis. There is no automatic
// fallback to it, since anything a server says before keys are exchanged may come from an attacker.
const stackEnv = "USFTP_SSH_STACK"

// settings are the keywords that the native dialer acts on, parsed and checked once.
type settings struct {
	xcrypto           bool // USFTP_SSH_STACK is xcrypto
	alias, host, user string
	port              int
	network           string // "tcp", "tcp4" or "tcp6"
	bindAddress       string
	bindInterface     string
	attempts          int
	tcpKeepAlive      bool
	connectTimeout    time.Duration
	aliveInterval     time.Duration
	aliveCountMax     int

	proxyJump, proxyCommand string
	controlPath             string // the socket of the user's master, "" for none

	compress               bool
	ciphers, macs, kexes   []string
	hostKeyAlgos           []string
	hostKeysOrdered        bool // HostKeyAlgorithms has an order of its own
	caAlgos, pubkeyAlgos   []string
	minRSABits             int
	rekeyBytes             uint64        // 0 for the cipher's default
	rekeyAfter             time.Duration // 0 for never
	hostKeyAlias           string
	userKnown, globalKnown []string
	knownHostsCommand      string // "" for none
	revokedHostKeys        string // a file, "" for none
	strict                 string // "yes", "accept-new", "no" or "ask"
	hashKnownHosts         bool
	trustLoopback          bool // NoHostAuthenticationForLocalhost
	batch                  bool
	quiet                  bool // LogLevel leaves out what is not an error
	identities             []identityFile
	certificates           []string
	identitiesOnly         bool
	agent                  string // path, "" for none
	pkcs11                 string // a module, "" for none
	tokenProvider          string // SecurityKeyProvider
	addKeys                addKeys
	pubkey, password, kbd  bool
	prompts                int
	preferred              []string
	env                    func(string) (string, bool)
	environ                []string // for programs; nil for our own
	find                   func(program string) string
	home                   string
}

// An identityFile is the name of a private key. A warning is logged if an explicit one is missing.
type identityFile struct {
	path     string
	explicit bool
}

// principal returns the name that a host's certificate must be for, in lower case as in ssh.
func (s *settings) principal() string {
	return strings.ToLower(cmp.Or(s.hostKeyAlias, s.host))
}

// knownAs returns the host's name in known_hosts: "[host]:port" unless the port is 22. An alias
// stands alone, whatever the port.
func (s *settings) knownAs() string {
	if s.hostKeyAlias != "" || s.port == 22 {
		return s.principal()
	}
	return fmt.Sprintf("[%s]:%d", s.principal(), s.port)
}

// address returns the address of the host.
func (s *settings) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

func (s *settings) userHost() string { return Target{User: s.user, Host: s.alias}.UserHost() }

// homeDir returns the directory that '~' stands for. Like ssh it uses the password database and not
// HOME, unless the Config has an Env.
func homeDir(c *Config) string {
	if c.Env != nil {
		if h := c.getenv("HOME"); h != "" {
			return h
		}
	}
	if runtime.GOOS != "windows" {
		if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && u.HomeDir != "" {
			return u.HomeDir
		}
	}
	h, _ := os.UserHomeDir()
	return h
}

func localUser(c *Config) string {
	if runtime.GOOS != "windows" {
		if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
			return u.Username
		}
	}
	if u, err := user.Current(); err == nil {
		// DOMAIN\name on Windows: ssh logs in with the last part.
		return u.Username[strings.LastIndexByte(u.Username, '\\')+1:]
	}
	return c.getenv("USER")
}

// quietLevels are the values of LogLevel that hide what is no error. `ssh -G` prints QUIET as
// SILENT.
var quietLevels = []string{"SILENT", "QUIET", "FATAL", "ERROR"}

// readSettings turns keywords into settings.
func readSettings(t Target, w keywords, c *Config) (*settings, error) {
	s := &settings{
		alias: t.Host, host: cmp.Or(w.get("hostname"), t.Host), user: w.get("user"),
		bindAddress:    w.get("bindaddress"),
		tcpKeepAlive:   w.yes("tcpkeepalive", true),
		hostKeyAlias:   w.get("hostkeyalias"),
		hashKnownHosts: w.yes("hashknownhosts", false),
		trustLoopback:  w.yes("nohostauthenticationforlocalhost", false),
		batch:          w.yes("batchmode", false),
		quiet:          slices.Contains(quietLevels, strings.ToUpper(w.get("loglevel"))),
		compress:       w.yes("compression", false),
		identitiesOnly: w.yes("identitiesonly", false),
		pubkey:         w.yes("pubkeyauthentication", true),
		password:       w.yes("passwordauthentication", true),
		kbd:            w.yes("kbdinteractiveauthentication", true),
		env:            c.lookupEnv,
		environ:        c.Env,
		find:           c.find,
		home:           homeDir(c),
	}
	switch stack := c.getenv(stackEnv); stack {
	case "":
	case "xcrypto":
		s.xcrypto = true
	default:
		return nil, fmt.Errorf("the environment variable %s is %q; the only valid value is xcrypto",
			stackEnv, stack)
	}
	if s.user == "" {
		s.user = localUser(c)
	}
	// HostName and User may come from a file written by someone else.
	if err := (Target{User: s.user, Host: s.host}).check(); err != nil {
		return nil, fmt.Errorf("in the ssh configuration: %w", err)
	}
	var errs []error
	num := func(key string, otherwise int) int {
		n, err := w.number(key, otherwise)
		errs = append(errs, err)
		return n
	}
	span := func(key string) time.Duration {
		d, err := w.duration(key)
		errs = append(errs, err)
		return d
	}
	s.port = num("port", 22)
	s.attempts = max(1, num("connectionattempts", 1))
	s.aliveCountMax = num("serveralivecountmax", 3)
	s.prompts = num("numberofpasswordprompts", 3)
	s.minRSABits = num("requiredrsasize", 1024)
	s.connectTimeout = span("connecttimeout")
	s.aliveInterval = span("serveraliveinterval")
	if s.port < 1 || s.port > 65535 {
		errs = append(errs, fmt.Errorf("port %d in the ssh configuration is not from 1 to 65535",
			s.port))
	}
	var err error
	s.network, err = network(w.get("addressfamily"))
	errs = append(errs, err)
	s.strict, err = strictness(w.get("stricthostkeychecking"))
	errs = append(errs, err)
	s.rekeyBytes, s.rekeyAfter, err = rekeyLimit(w.get("rekeylimit"))
	errs = append(errs, err)
	s.addKeys, err = readAddKeys(w.get("addkeystoagent"))
	errs = append(errs, err)
	if w.set("bindinterface") {
		s.bindInterface = w.get("bindinterface")
	}
	if w.set("proxycommand") {
		s.proxyCommand = w.get("proxycommand")
	}
	if w.set("proxyjump") {
		s.proxyJump, s.proxyCommand = w.get("proxyjump"), ""
	}
	s.preferred = nativeMethods
	if p := w.get("preferredauthentications"); p != "" {
		s.preferred = strings.Split(p, ",")
	}
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	if err := s.readFiles(w); err != nil {
		return nil, err
	}
	s.addNamed(c.Identities)
	return s, s.readAlgorithms(w)
}

func network(family string) (string, error) {
	switch strings.ToLower(family) {
	case "", "any":
		return "tcp", nil
	case "inet":
		return "tcp4", nil
	case "inet6":
		return "tcp6", nil
	}
	return "", fmt.Errorf("AddressFamily %q is not any, inet or inet6", family)
}

func strictness(v string) (string, error) {
	switch strings.ToLower(v) {
	case "yes", "true":
		return "yes", nil
	case "no", "false", "off":
		return "no", nil
	case "", "ask":
		return "ask", nil
	case "accept-new":
		return "accept-new", nil
	}
	return "", fmt.Errorf("StrictHostKeyChecking %q is not yes, accept-new, no or ask", v)
}

// rekeyLimit reads RekeyLimit: bytes, and a time.
func rekeyLimit(v string) (uint64, time.Duration, error) {
	amount, span, _ := strings.Cut(strings.TrimSpace(v), " ")
	after, err := duration("RekeyLimit", strings.TrimSpace(span))
	if err != nil {
		return 0, 0, err
	}
	switch amount = strings.ToLower(amount); amount {
	case "", "default", "none":
		return 0, after, nil
	}
	last := len(amount) - 1
	shift := 10 * (strings.IndexByte("kmg", amount[last]) + 1)
	if shift > 0 {
		amount = amount[:last]
	}
	n, err := strconv.ParseUint(amount, 10, 62-shift)
	if err != nil {
		return 0, 0, fmt.Errorf("RekeyLimit %q is not a size", v)
	}
	return n << shift, after, nil
}

// readFiles expands file names. Like ssh it leaves out a name that needs an unset variable.
func (s *settings) readFiles(w keywords) (err error) {
	x := s.tokens()
	for _, f := range w["identityfile"] {
		if strings.EqualFold(f, "none") {
			continue
		}
		path, err := x.file(f)
		if err != nil {
			continue
		}
		s.identities = append(s.identities, identityFile{path, !isDefaultIdentity(f)})
	}
	for _, f := range w["certificatefile"] {
		if path, err := x.file(f); err == nil && !strings.EqualFold(f, "none") {
			s.certificates = append(s.certificates, path)
		}
	}
	s.userKnown = x.files(w["userknownhostsfile"])
	s.globalKnown = x.systemFiles(w["globalknownhostsfile"])
	if w.set("revokedhostkeys") {
		if s.revokedHostKeys, err = x.file(literal(w["revokedhostkeys"])[0]); err != nil {
			return err
		}
	}
	if w.set("knownhostscommand") {
		s.knownHostsCommand = w.get("knownhostscommand")
	}
	s.agent = x.agent(w.get("identityagent"))
	if w.set("pkcs11provider") {
		s.pkcs11 = w.get("pkcs11provider")
	}
	s.tokenProvider = cmp.Or(w.get("securitykeyprovider"), "internal")
	if name, ok := strings.CutPrefix(s.tokenProvider, "$"); ok { // as in ssh, the whole value
		s.tokenProvider, _ = s.env(name)
	}
	s.controlPath = x.controlPath(w)
	return nil
}

// addNamed puts back keys that ssh -G drops: those named with -i that do not exist. Dropping them
// silently would hide why a login fails.
func (s *settings) addNamed(files []string) {
	x := s.tokens()
	for i, f := range files {
		path, err := x.file(f)
		if err != nil {
			path = f
		}
		named := func(id identityFile) bool { return id.path == path }
		if !slices.ContainsFunc(s.identities, named) {
			s.identities = slices.Insert(s.identities, min(i, len(s.identities)),
				identityFile{path, true})
		}
	}
}

func isDefaultIdentity(f string) bool {
	base, ok := strings.CutPrefix(f, "~/.ssh/id_")
	return ok && !strings.Contains(base, "/")
}

// controlPath returns the socket of a master that may be used. As with ssh, "yes" and "ask" mean
// that this connection should become the master rather than use one.
func (x expander) controlPath(w keywords) string {
	switch strings.ToLower(w.get("controlmaster")) {
	case "yes", "true", "ask":
		return ""
	}
	if !w.set("controlpath") {
		return ""
	}
	path, err := x.file(w.get("controlpath")) // ssh -G has expanded it already
	if err != nil {
		return ""
	}
	return path
}

// agent returns the agent's socket.
func (x expander) agent(v string) string {
	switch {
	case strings.EqualFold(v, "none"):
		return ""
	case v == "" || v == "SSH_AUTH_SOCK":
		sock, _ := x.env("SSH_AUTH_SOCK")
		if sock == "" && runtime.GOOS == "windows" {
			return `\\.\pipe\openssh-ssh-agent`
		}
		return sock
	case strings.HasPrefix(v, "$") && !strings.HasPrefix(v, "${"):
		sock, _ := x.env(v[1:])
		return sock
	}
	path, err := x.file(v)
	if err != nil {
		return ""
	}
	return path
}

// systemFiles reads GlobalKnownHostsFile, without tokens as in ssh. Windows' ssh prints a word for
// %ProgramData%. A name without a drive is Git's, whose ssh has a root of its own: in the disk's,
// anyone may make directories.
func (x expander) systemFiles(values []string) []string {
	values = literal(values)
	if runtime.GOOS != "windows" {
		return x.files(values)
	}
	data := strings.NewReplacer("__PROGRAMDATA__", os.Getenv("ProgramData"))
	for i, v := range values {
		values[i] = data.Replace(v)
	}
	return slices.DeleteFunc(x.files(values),
		func(name string) bool { return filepath.VolumeName(name) == "" })
}

// files reads a keyword with several file names. `ssh -G` prints them without quotes, so a name
// with a space looks like two. Such names are absolute or start with '~', so any other piece
// belongs to the name before it.
func (x expander) files(values []string) []string {
	var files []string
	for _, v := range values {
		var line []string
		for piece := range strings.SplitSeq(v, " ") {
			whole := filepath.IsAbs(piece) || strings.HasPrefix(piece, "~") ||
				strings.HasPrefix(piece, "${")
			if last := len(line) - 1; !whole && last >= 0 && filepath.IsAbs(line[last]) {
				line[last] += " " + piece
				continue
			}
			if piece != "" {
				line = append(line, piece)
			}
		}
		files = append(files, line...)
	}
	out := files[:0]
	for _, f := range files {
		if path, err := x.file(f); err == nil && !strings.EqualFold(f, "none") {
			out = append(out, path)
		}
	}
	return out
}
