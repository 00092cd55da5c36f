package dial

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Target is a user, a host and a path, as a person names them. Except for Host, a zero field
// means that the person left it out: the user and the port then come from the configuration.
type Target struct {
	User string
	// Host is a name, an alias of ssh_config, or an address; IPv6 without brackets.
	Host string
	Port int
	// Path is the remote path as the server sees it. A relative path starts at the login directory,
	// and an empty one is that directory.
	Path string
}

var errNoHost = errors.New("no host given")

// ParseTarget parses one argument of a copy. If s names a local file, remote is false and the error
// nil. As in scp, s is remote if it has a ':' before any '/'. So "./a:b" and "/tmp/a:b" are local,
// and so is ":x"; on Windows, so are "C:x" and any s with a '\' before the ':', unless that is a
// user's, as in "DOMAIN\user@host:x".
//
//	host:path                      path relative to the login directory unless it starts with '/'
//	user@host:path
//	[::1]:path, user@[::1]:path
//	sftp://user@host:port/path     path absolute; "/~/x" is x in the login directory
//	scp://user@host:port/path      path relative to the login directory; "//x" is absolute
//
// An address that begins with http://, ssh:// or the like is an error, and not a host of that name.
//
// Hosts and users that OpenSSH's ssh refuses on its command line are refused here too: those that
// start with '-' or contain characters with a meaning to a shell. Both end up in ssh's arguments
// and in ProxyCommand.
func ParseTarget(s string) (t Target, remote bool, err error) {
	switch scheme := urlScheme(s); scheme {
	case "":
	case "sftp", "scp":
		t, err = parseURL(s, scheme)
		return t, true, err
	default:
		return Target{}, true, fmt.Errorf(
			"%q: %s:// addresses are not supported; use host:path, sftp://host/path or scp://host/path", s, scheme)
	}
	colon := scpColon(s)
	if colon < 0 || runtime.GOOS == "windows" && isWindowsPath(s, colon) {
		return Target{}, false, nil
	}
	t, err = parseUserHost(s[:colon])
	if address, path, ok := bareIPv6(s, colon); ok {
		err = fmt.Errorf("an IPv6 address needs brackets: [%s]:%s", address, path)
	}
	if err != nil {
		return Target{}, true, fmt.Errorf("%q: %w", s, err)
	}
	t.Path = homeRelative(s[colon+1:])
	if strings.IndexByte(t.Path, 0) >= 0 {
		return Target{}, true, fmt.Errorf("%q: the path contains a NUL", s)
	}
	return t, true, nil
}

// ParseHost parses an argument that can only be remote, so it needs no colon: "host", "user@host",
// "::1", and every form that [ParseTarget] accepts. So anything after a colon is a path, as for
// scp, even if it is a number: a port needs an address such as "sftp://host:2022".
func ParseHost(s string) (Target, error) {
	// "::1" and "fe80::1%eth0" have colons of their own.
	if strings.Count(s, ":") >= 2 && !strings.ContainsAny(s, "[/") {
		if t, err := parseUserHost(s); err == nil && strings.Contains(t.Host, ":") {
			return t, nil
		}
	}
	t, remote, err := ParseTarget(s)
	if err != nil || remote {
		return t, err
	}
	t, err = parseUserHost(s)
	if err != nil {
		return Target{}, fmt.Errorf("%q: %w", s, err)
	}
	return t, nil
}

// String returns the form that a person would type, which [ParseTarget] or, without a path,
// [ParseHost] reads as t: host:path if it can express all of t, otherwise a URL.
func (t Target) String() string {
	// "ftp" with the path "//x" would be an address of another kind, and the user "a:b" a host.
	if t.Path == "" {
		if read, err := ParseHost(t.UserHost()); err == nil && read == t {
			return t.UserHost()
		}
	} else {
		short := t.UserHost() + ":" + t.Path
		if read, _, err := ParseTarget(short); err == nil && read == t {
			return short
		}
	}
	u := url.URL{Scheme: "sftp", Host: bracket(t.Host)}
	if t.Port != 0 {
		u.Host += ":" + strconv.Itoa(t.Port)
	}
	if t.User != "" {
		u.User = url.User(t.User)
	}
	switch {
	case strings.HasPrefix(t.Path, "~"), strings.HasPrefix(t.Path+"/", "/~/"):
		u.Scheme, u.Path = "scp", "/"+t.Path // an sftp:// URL would mean another path
	case strings.HasPrefix(t.Path, "/"):
		u.Path = t.Path
	case t.Path != "":
		u.Path = "/~/" + t.Path
	}
	return u.String()
}

// UserHost returns "user@host" or "host", with IPv6 addresses in brackets.
func (t Target) UserHost() string {
	if t.User != "" {
		return t.User + "@" + bracket(t.Host)
	}
	return bracket(t.Host)
}

func bracket(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// scpColon finds the colon that makes an argument remote, as scp's colon() does.
func scpColon(s string) int {
	if strings.HasPrefix(s, ":") {
		return -1
	}
	bracketed := strings.HasPrefix(s, "[")
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '@' && strings.HasPrefix(s[i+1:], "["):
			bracketed = true
		case s[i] == ']' && bracketed && strings.HasPrefix(s[i+1:], ":"):
			return i + 1
		case s[i] == ':' && !bracketed:
			return i
		case s[i] == '/':
			return -1
		}
	}
	return -1
}

// bareIPv6 finds an IPv6 address without brackets in a target whose first colon is at colon, as in
// "me@fe80::1:path". In "cafe::path" the host is cafe.
func bareIPv6(s string, colon int) (address, path string, ok bool) {
	host := s[strings.LastIndexByte(s[:colon], '@')+1:]
	start, _, _ := strings.Cut(host, "/") // a zone may have any character
	for end := len(start); end > 0; {
		end = max(0, strings.LastIndexByte(host[:end], ':'))
		addr, err := netip.ParseAddr(host[:end])
		if err == nil && addr.Is6() && !strings.HasSuffix(host[:end], "::") {
			return host[:end], host[end+1:], true
		}
	}
	return "", "", false
}

// isWindowsPath reports whether text with a colon is a path on Windows: "C:x", or anything with a
// backslash before the colon, as "\\?\C:\x" and "dir\file:stream". "DOMAIN\user@host:x" is none.
func isWindowsPath(s string, colon int) bool {
	if colon == 1 && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') {
		return true
	}
	slash := strings.LastIndexByte(s[:colon], '\\')
	return slash >= 0 && (strings.TrimLeft(s, ".")[0] == '\\' ||
		strings.LastIndexByte(s[:colon], '@') < slash)
}

// parseUserHost splits at the last '@', as ssh does: user names may contain one.
func parseUserHost(s string) (Target, error) {
	var t Target
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		t.User, s = s[:at], s[at+1:]
		if t.User == "" {
			return Target{}, errors.New("the user before '@' is empty")
		}
	}
	t.Host = unbracket(s)
	return t, t.check()
}

func unbracket(host string) string {
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") && len(host) > 2 {
		return host[1 : len(host)-1]
	}
	return host
}

// urlScheme returns the scheme of an argument that is a URL, otherwise "". Other words before "://"
// are hosts, as for scp.
func urlScheme(s string) string {
	scheme, _, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "sftp", "scp", "ssh", "http", "https", "ftp", "ftps", "rsync", "file", "s3":
		if ok {
			return scheme
		}
	}
	return ""
}

func parseURL(s, scheme string) (Target, error) {
	// Fragments and queries mean nothing here, and '#' and '?' may occur in file names.
	u, err := url.Parse(strings.NewReplacer("#", "%23", "?", "%3F").Replace(s))
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return Target{}, fmt.Errorf("%q: %w", s, err)
	}
	t := Target{Host: u.Hostname()}
	if u.User != nil {
		t.User = u.User.Username()
		if _, has := u.User.Password(); has {
			// The password is not repeated on the screen.
			return Target{}, fmt.Errorf(
				"an %s:// address must not contain a password: every user of this machine could read it",
				scheme)
		}
		// RFC 3986 lets parameters follow: "user;fingerprint=...". ssh too refuses unknown ones.
		if strings.Contains(t.User, ";") {
			return Target{}, fmt.Errorf("%q: connection parameters after ';' are not supported", s)
		}
	}
	if p := u.Port(); p != "" {
		if t.Port, err = parsePort(p); err != nil {
			return Target{}, fmt.Errorf("%q: %w", s, err)
		}
	}
	if err := t.check(); err != nil {
		return Target{}, fmt.Errorf("%q: %w", s, err)
	}
	t.Path = u.Path
	if scheme == "scp" {
		t.Path = homeRelative(strings.TrimPrefix(t.Path, "/"))
	} else if t.Path == "/~" || strings.HasPrefix(t.Path, "/~/") {
		t.Path = homeRelative(t.Path[1:])
	}
	if strings.IndexByte(t.Path, 0) >= 0 {
		return Target{}, fmt.Errorf("%q: the path contains a NUL", s)
	}
	return t, nil
}

// homeRelative drops a leading "~/": sessions start in the home directory.
func homeRelative(path string) string {
	if path == "~" {
		return ""
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		rest = strings.TrimLeft(rest, "/")
		if strings.HasPrefix(rest, "~") { // a file whose name is "~", or starts so
			return "./" + rest
		}
		return rest
	}
	return path
}

func parsePort(s string) (int, error) {
	p, err := strconv.Atoi(s)
	if err != nil || p < 1 || p > 65535 || s[0] == '+' {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", s)
	}
	return p, nil
}

// check refuses names that could become an option of ssh, or shell syntax in a ProxyCommand's %h
// and %r, as OpenSSH's valid_hostname and valid_ruser (ssh.c) do. Slashes, brackets and '@' in host
// names are refused too.
func (t Target) check() error {
	if t.Host == "" {
		return errNoHost
	}
	if t.Host[0] == '-' {
		return fmt.Errorf("host %q starts with '-'", t.Host)
	}
	if i := strings.IndexFunc(t.Host, badInHost); i >= 0 {
		r, _ := utf8.DecodeRuneInString(t.Host[i:])
		return fmt.Errorf("host %q contains the character %q", t.Host, string(r))
	}
	if strings.Contains(t.Host, ":") {
		if _, err := netip.ParseAddr(t.Host); err != nil {
			return fmt.Errorf("host %q contains a colon but is not an IPv6 address", t.Host)
		}
	}
	if strings.HasPrefix(t.User, "-") {
		return fmt.Errorf("user %q starts with '-'", t.User)
	}
	if i := strings.IndexFunc(t.User, badInUser); i >= 0 {
		r, _ := utf8.DecodeRuneInString(t.User[i:])
		return fmt.Errorf("user %q contains the character %q", t.User, string(r))
	}
	// A shell would split "x -oFoo" into a user and an option, and "x\" would join the user with
	// the next word of the command.
	if dashAfterSpace.MatchString(t.User) {
		return fmt.Errorf("user %q contains a space followed by '-'", t.User)
	}
	if strings.HasSuffix(t.User, `\`) {
		return fmt.Errorf("user %q ends with a backslash", t.User)
	}
	return nil
}

var dashAfterSpace = regexp.MustCompile(`[\s\p{Z}]-`)

func badInHost(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) ||
		strings.ContainsRune("'`\"$\\;&<>|(){}[],/@", r)
}

func badInUser(r rune) bool {
	return unicode.IsControl(r) || strings.ContainsRune("'`\";&<>|(){}", r)
}
