package dial

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// An expander replaces the TOKENS and ENVIRONMENT VARIABLES of ssh_config(5), and a leading '~'.
type expander struct {
	home   string
	env    func(string) (string, bool)
	tokens map[byte]string
}

// tokens returns the expander for file names.
func (s *settings) tokens() expander {
	host, _ := os.Hostname()
	short, _, _ := strings.Cut(host, ".")
	local := ""
	if u, err := user.Current(); err == nil {
		local = u.Username
	}
	port := strconv.Itoa(s.port)
	// %C: "Hash of %l%h%p%r%j"; %j came with OpenSSH 9.7 and is empty without a jump.
	sum := sha1.Sum([]byte(host + s.host + port + s.user + s.proxyJump))
	return expander{home: s.home, env: s.env, tokens: map[byte]string{
		'%': "%", 'C': hex.EncodeToString(sum[:]), 'd': s.home, 'h': s.host,
		'i': strconv.Itoa(os.Getuid()), 'j': s.proxyJump, 'k': s.keyAlias(),
		'L': short, 'l': host,
		'n': s.alias, 'p': port, 'r': s.user, 'u': local,
	}}
}

// proxyTokens returns the expander for ProxyCommand and ProxyJump, which have fewer tokens. ssh
// knows %k there, too, whatever ssh_config(5) says.
func (s *settings) proxyTokens() expander {
	return expander{tokens: map[byte]string{
		'%': "%", 'h': s.host, 'k': s.keyAlias(), 'n': s.alias, 'p': strconv.Itoa(s.port),
		'r': s.user,
	}}
}

func (s *settings) keyAlias() string { return cmp.Or(s.hostKeyAlias, s.alias) }

// expand replaces %x, and ${NAME} if x has an environment, whose values are taken as they are.
func (x expander) expand(v string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		switch name, isVariable := strings.CutPrefix(v[i:], "${"); {
		case isVariable && x.env != nil:
			name, _, closed := strings.Cut(name, "}")
			if !closed {
				return "", fmt.Errorf("${%s in the ssh configuration is not closed", name)
			}
			value, ok := x.env(name)
			if !ok {
				return "", fmt.Errorf("${%s} in the ssh configuration is not set", name)
			}
			b.WriteString(value)
			i += len("${") + len(name)
		case v[i] != '%':
			b.WriteByte(v[i])
		case i+1 == len(v):
			return "", fmt.Errorf("%q in the ssh configuration ends with a lone %%", v)
		default:
			i++
			value, ok := x.tokens[v[i]]
			if !ok {
				return "", fmt.Errorf("%q in the ssh configuration contains the unknown token %%%c",
					v, v[i])
			}
			b.WriteString(value)
		}
	}
	return b.String(), nil
}

// file expands the name of a file. A relative one is made absolute, so that it leads to the same file
// if the program leaves this directory and logs in again, as a mount in the background does.
func (x expander) file(v string) (string, error) {
	name, err := x.expand(x.tilde(v))
	if err != nil || name == "" || os.IsPathSeparator(name[0]) || filepath.VolumeName(name) != "" {
		return name, err
	}
	if dir, err := os.Getwd(); err == nil {
		name = dir + string(os.PathSeparator) + name // not cleaned: "link/.." is another directory
	}
	return name, nil
}

func (x expander) tilde(v string) string {
	rest, ok := strings.CutPrefix(v, "~")
	if !ok {
		return v
	}
	// A '%' in the directory itself must survive expand.
	quote := func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
	if rest == "" {
		return quote(x.home)
	}
	if rest[0] == '/' || os.IsPathSeparator(rest[0]) {
		return filepath.Join(quote(x.home), rest[1:])
	}
	name, rest, _ := strings.Cut(rest, "/")
	if u, err := user.Lookup(name); err == nil {
		return filepath.Join(quote(u.HomeDir), rest)
	}
	return v
}
