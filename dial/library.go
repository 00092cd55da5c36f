package dial

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/kevinburke/ssh_config"
)

// systemConfig is where OpenSSH's client finds the system's configuration. There is none on Windows:
// anyone may make directories in the root of its disk, and in %ProgramData% until ssh is installed.
const systemConfig = "/etc/ssh/ssh_config"

// manyValued are the keywords whose values add up; for the others the first value wins.
var manyValued = map[string]bool{"identityfile": true, "certificatefile": true, "sendenv": true,
	"setenv": true}

// libraryKeywords reads ssh_config without OpenSSH's help. Anything the library cannot read is an
// error and not skipped, since it might say where to connect.
func libraryKeywords(t Target, c *Config) (keywords, error) {
	w := make(keywords)
	add := func(key, value string) {
		key = newName(strings.ToLower(key))
		if key == "proxyjump" && len(w["proxycommand"]) > 0 {
			return // as with ssh, the first of the two counts, even if it is "none"
		}
		if len(w[key]) == 0 || manyValued[key] {
			w[key] = append(w[key], value)
		}
	}
	if err := addFlags(t, c, add); err != nil {
		return nil, err
	}
	for _, file := range configFiles(c) {
		cfg, err := decodeConfig(file, c)
		if err != nil {
			return nil, err
		}
		if cfg == nil {
			continue
		}
		first, err := firstProxy(cfg, t.Host)
		if err != nil {
			return nil, unreadable(file, err.Error())
		}
		keys := slices.Concat(first, knownKeywords(), slices.Sorted(maps.Keys(oldNames)))
		for _, key := range keys {
			values, err := cfg.GetAll(t.Host, key)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, v := range values {
				add(key, v)
			}
		}
	}
	return addDefaults(t, w)
}

// oldNames are keywords that ssh still takes, and what they are called today.
var oldNames = map[string]string{
	"challengeresponseauthentication": "kbdinteractiveauthentication",
	"dsaauthentication":               "pubkeyauthentication",
	"identityfile2":                   "identityfile",
	"keepalive":                       "tcpkeepalive",
	"pubkeyacceptedkeytypes":          "pubkeyacceptedalgorithms",
	"skeyauthentication":              "kbdinteractiveauthentication",
	"smartcarddevice":                 "pkcs11provider",
	"tisauthentication":               "kbdinteractiveauthentication",
}

func newName(key string) string { return cmp.Or(oldNames[key], key) }

// firstProxy returns ProxyJump if a file has it for a host, and no ProxyCommand before it.
func firstProxy(cfg *ssh_config.Config, host string) ([]string, error) {
	const command, jump = "proxycommand", "proxyjump"
	for _, h := range cfg.Hosts {
		if !h.Matches(host) {
			continue
		}
		for _, node := range h.Nodes {
			var has [2]bool
			switch n := node.(type) {
			case *ssh_config.KV:
				has = [2]bool{strings.EqualFold(n.Key, command), strings.EqualFold(n.Key, jump)}
			case *ssh_config.Include:
				has = [2]bool{n.Get(host, command) != "", n.Get(host, jump) != ""}
			}
			switch has {
			case [2]bool{true, true}:
				return nil, errors.New("it includes a file with both ProxyCommand and ProxyJump")
			case [2]bool{true, false}:
				return nil, nil
			case [2]bool{false, true}:
				return []string{jump}, nil
			}
		}
	}
	return nil, nil
}

// addFlags adds the command line's keywords, in the order in which ssh would take them.
func addFlags(t Target, c *Config, add func(key, value string)) error {
	if c.AddressFamily != "" {
		add("addressfamily", c.AddressFamily)
	}
	if t.User != "" {
		add("user", t.User)
	}
	if port := c.port(t); port != 0 {
		add("port", strconv.Itoa(port))
	}
	for _, id := range c.Identities {
		add("identityfile", id)
	}
	if c.Jump != "" {
		add("proxyjump", c.Jump)
	}
	if c.Ciphers != "" {
		add("ciphers", c.Ciphers)
	}
	for _, o := range c.Options {
		key, value, err := splitOption(o)
		if err != nil {
			return err
		}
		add(key, value)
	}
	return nil
}

// splitOption reads -o's "Key=Value" and "Key Value".
func splitOption(o string) (key, value string, err error) {
	key, value, err = splitLine(o)
	if inQuotes(value) && !strings.EqualFold(key, "ProxyCommand") { // they are its shell's
		value = value[1 : len(value)-1]
	}
	return key, value, err
}

// splitLine works like splitOption, and leaves quotes in the value.
func splitLine(o string) (key, value string, err error) {
	o = strings.TrimSpace(o)
	i := strings.IndexAny(o, "= \t")
	if i <= 0 {
		return "", "", fmt.Errorf("option %q is not of the form Key=Value", o)
	}
	value = strings.TrimSpace(o[i:])
	return o[:i], strings.TrimSpace(strings.TrimPrefix(value, "=")), nil
}

func inQuotes(value string) bool {
	return len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"'
}

func configFiles(c *Config) []string {
	switch {
	case strings.EqualFold(c.ConfigFile, "none"):
		return nil
	case c.ConfigFile != "":
		return []string{c.ConfigFile}
	}
	own := filepath.Join(homeDir(c), ".ssh", "config")
	if runtime.GOOS == "windows" {
		return []string{own}
	}
	return []string{own, systemConfig}
}

// decodeConfig reads one file. It returns nil if the file does not exist and was not named
// explicitly.
func decodeConfig(file string, c *Config) (*ssh_config.Config, error) {
	// The library looks for relative names in its own idea of the home directory.
	dir := filepath.Join(homeDir(c), ".ssh")
	if file == systemConfig {
		dir = filepath.Dir(systemConfig)
	}
	text, err := readConfig(file, dir, homeDir(c), 0)
	if missing(err) && c.ConfigFile == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cfg, err := ssh_config.DecodeBytes(text)
	if err != nil {
		return nil, unreadable(file, err.Error())
	}
	return cfg, nil
}

func unreadable(file, why string) error {
	return fmt.Errorf("%s: %s (OpenSSH's ssh is not installed; with it, every keyword could be read)", file, why)
}

// maxInclude is the library's own limit.
const maxInclude = 5

// readConfig reads a file and makes the names after Include absolute. It fails if the file, or a
// file that it includes, has something that the library would silently misread: any Match but "all"
// (it compares "host" with the alias, and takes further criteria for patterns), and quotes or tabs
// among patterns or around a command.
func readConfig(file, dir, home string, depth int) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("the ssh configuration: %w", err)
	}
	defer f.Close()
	if own := filepath.Join(home, ".ssh", "config"); file == own || depth > 0 {
		// As ssh does (readconf.c, SSHCONF_CHECKPERM): it names hosts and programs to run.
		if info, err := f.Stat(); err == nil && othersMayWrite(info) {
			return nil, fmt.Errorf("%s: bad owner or permissions: it must be yours or root's, and nobody else may write to it", file)
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return nil, fmt.Errorf("the ssh configuration: %w", err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		key, value, err := splitLine(line)
		if err != nil {
			continue
		}
		name := strings.ToLower(key)
		if misread(name, value) {
			return nil, unreadable(file, fmt.Sprintf("line %d: %s with quotes, tabs or #", i+1,
				printable([]byte(key))))
		}
		value, _, _ = strings.Cut(value, "#")
		value = strings.TrimSpace(value)
		switch name {
		case "match":
			if !strings.EqualFold(value, "all") {
				return nil, unreadable(file, fmt.Sprintf("line %d: Match %s", i+1,
					printable([]byte(value))))
			}
		case "include":
			if lines[i], err = readIncluded(value, dir, home, depth); err != nil {
				return nil, err
			}
		}
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// misread reports whether the library takes a value for another one than ssh. It ends a value at
// any "#", where ssh's comments begin only with a word, and knows only quotes around a whole value.
func misread(key, value string) bool {
	if key == "proxycommand" { // of which ssh's shell gets everything
		return inQuotes(value) || strings.Contains(value, "#")
	}
	if key != "host" && key != "include" && !slices.Contains(honoured, newName(key)) {
		return false
	}
	before, _, comment := strings.Cut(value, "#")
	value = strings.TrimSpace(before)
	if comment && value == before && value != "" {
		return true
	}
	if key != "include" && key != "host" && inQuotes(value) {
		value = value[1 : len(value)-1]
	}
	return strings.ContainsAny(value, "\"'") || strings.Contains(value, `\ `) ||
		key == "host" && strings.Contains(value, "\t")
}

// readIncluded reads the files that an Include names, and returns the line with absolute paths.
func readIncluded(value, dir, home string, depth int) (string, error) {
	if depth >= maxInclude {
		return "", fmt.Errorf("the ssh configuration: files include one another more than %d deep",
			maxInclude)
	}
	names := strings.Fields(value)
	for i, name := range names {
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			names[i] = filepath.Join(home, rest)
		} else if !filepath.IsAbs(name) {
			names[i] = filepath.Join(dir, name)
		}
		files, err := filepath.Glob(names[i])
		if err != nil {
			return "", fmt.Errorf("the ssh configuration: Include %s: %w", name, err)
		}
		for _, file := range files {
			if _, err := readConfig(file, dir, home, depth+1); err != nil {
				return "", err
			}
		}
	}
	return "Include " + strings.Join(names, " "), nil
}

// addDefaults fills in the defaults that `ssh -G` would.
func addDefaults(t Target, w keywords) (keywords, error) {
	host := t.Host
	if name := w.get("hostname"); name != "" {
		var err error
		host, err = expander{tokens: map[byte]string{'%': "%", 'h': t.Host}}.expand(name)
		if err != nil {
			return nil, err
		}
	}
	host = strings.ToLower(host)
	if address, err := netip.ParseAddr(host); err == nil {
		host = address.String() // in its usual form
	}
	w["hostname"] = []string{host}
	if alias := w.get("hostkeyalias"); alias != "" {
		w["hostkeyalias"] = []string{strings.ToLower(alias)}
	}
	def := func(key string, values ...string) {
		if len(w[key]) == 0 {
			w[key] = values
		}
	}
	def("identityfile", "~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ecdsa_sk",
		"~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk")
	def("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
	def("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
	for _, key := range []string{"proxyjump", "proxycommand"} { // ssh -G leaves these out
		if strings.EqualFold(w.get(key), "none") {
			delete(w, key)
		}
	}
	return w, nil
}
