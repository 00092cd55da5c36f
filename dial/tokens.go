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
		'i': strconv.Itoa(os.Getuid()), 'j': s.proxyJump, 'k': cmp.Or(s.hostKeyAlias, s.alias),
		'L': short, 'l': host,
		'n': s.alias, 'p': port, 'r': s.user, 'u': local,
	}}
}

// proxyTokens returns the expander for ProxyCommand and ProxyJump, which have fewer tokens.
func (s *settings) proxyTokens() expander {
	return expander{tokens: map[byte]string{
		'%': "%", 'h': s.host, 'n': s.alias, 'p': strconv.Itoa(s.port), 'r': s.user,
	}}
}

// percent replaces %x.
func (x expander) percent(v string) (string, error) {
	if !strings.Contains(v, "%") {
		return v, nil
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '%' {
			b.WriteByte(v[i])
			continue
		}
		i++
		if i == len(v) {
			return "", fmt.Errorf("%q in the ssh configuration ends with a lone %%", v)
		}
		r, ok := x.tokens[v[i]]
		if !ok {
			return "", fmt.Errorf("%q in the ssh configuration contains the unknown token %%%c", v,
				v[i])
		}
		b.WriteString(r)
	}
	return b.String(), nil
}

// dollar replaces ${NAME}.
func (x expander) dollar(v string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(v, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Errorf("${%s in the ssh configuration is not closed", rest)
		}
		value, ok := x.env(name)
		if !ok {
			return "", fmt.Errorf("${%s} in the ssh configuration is not set", name)
		}
		b.WriteString(value)
		v = after
	}
}

// file expands the name of a file.
func (x expander) file(v string) (string, error) {
	v, err := x.dollar(v)
	if err != nil {
		return "", err
	}
	v = x.tilde(v)
	return x.percent(v)
}

func (x expander) tilde(v string) string {
	rest, ok := strings.CutPrefix(v, "~")
	if !ok {
		return v
	}
	// A '%' in the directory itself must survive percent.
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
