//go:build unix

package dial

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/proxytest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// The host is reached through the proxy, which resolves its name; with a jump host, only that one.
func TestProxy(t *testing.T) {
	a := opensshd.Start(t, opensshd.Options{Alias: "a"})
	b := opensshd.Start(t, opensshd.Options{Alias: "b"})
	chained := chain(t, a, b)
	named := writeFile(t, filepath.Join(t.TempDir(), "named"),
		fmt.Sprintf("Host a\n\tHostName only-there.invalid\n\tHostKeyAlias [127.0.0.1]:%d\n", a.Port)+
			a.ClientBlock())
	for _, scheme := range []string{"socks5", "http"} {
		for _, login := range []string{"", "me:se%cret"} {
			t.Run(scheme+login, func(t *testing.T) {
				p := proxytest.Start(t, scheme, login)
				p.Know("only-there.invalid", "127.0.0.1")
				at := p.Address
				if login != "" {
					at = "me:se%25cret@" + at
				}
				for _, test := range []struct {
					host, file string
					env        []string
					asked      []string
				}{
					{host: "a", file: named, asked: []string{fmt.Sprint("only-there.invalid:", a.Port)}},
					{host: "b", file: chained, asked: []string{a.Addr()}},
					{host: "a", file: a.ConfigFile, env: []string{"ALL_PROXY=" + scheme + "://" + at},
						asked: []string{a.Addr()}},
					{host: "a", file: a.ConfigFile, env: []string{"all_proxy=" + scheme + "://" + at,
						"no_proxy=example.com,127.0.0.0/8"}},
				} {
					before := len(p.Targets())
					c := &Config{ConfigFile: test.file, Proxy: scheme + "://" + at}
					if test.env != nil {
						c.Proxy, c.Env = "env", append(os.Environ(), test.env...)
					}
					conn := connect(t, Target{Host: test.host}, c)
					open(t, conn)
					conn.Close()
					if asked := p.Targets()[before:]; !slices.Equal(asked, test.asked) {
						t.Errorf("%+v: the proxy was asked for %q", test, asked)
					}
				}
			})
		}
	}
	none(t)
}

// Errors name the proxy and not its password, and nothing that a proxy does goes on for ever.
func TestProxyFails(t *testing.T) {
	t.Cleanup(func() { none(t) }) // after the proxies have ended
	refused := fmt.Sprint("127.0.0.1:", testenv.RefusedPort(t))
	says := func(words string) string {
		return testenv.Listen(t, func(conn net.Conn) {
			defer conn.Close()
			conn.Read(make([]byte, 1<<10))
			if words == "" { // nothing, and does not hang up
				io.Copy(io.Discard, conn)
				return
			}
			io.WriteString(conn, words)
		}).String()
	}
	socks, http := proxytest.Start(t, "socks5", "me:right"), proxytest.Start(t, "http", "me:right")
	for _, test := range []struct{ proxy, why string }{
		{"socks5://me:secret@" + refused, "was refused"},
		{"http://" + refused, "was refused"},
		{"socks5://me:secret@" + socks.Address, "username/password authentication failed"},
		{"socks5://" + socks.Address, "no acceptable authentication methods"},
		{"http://me:secret@" + http.Address, `"407 Proxy Authentication Required": it wants a login`},
		{"socks5h://me:right@" + socks.Address, "connection refused"},
		{"http://me:right@" + http.Address, `"502 Bad Gateway"`},
		{"http://me:secret@" + says("SSH-2.0-x\r\n\r\n"), `it said: "SSH-2.0-x"`},
		{"http://me:secret@" + says("HTTP/1.1 200 OK\r\n"+strings.Repeat("x", 1<<20)), "too long"},
		{"http://me:secret@" + says("HTTP/1.1 200 OK\r\n"), "no answer"},
		{"http://" + says("HTTP/1.1 500 "+strings.Repeat("x", 10_000)+"\r\n\r\n"), "500 xxx"},
		{"http://" + says("HTTP/1.1 500 \u2066\u2067\u200f\x1b[2J\r\n\r\n"), `"500 ????[2J"`},
		{"socks5://me:secret@" + says("SSH-2.0-x\r\n\r\n"), "version"},
		{"http://me:secret@" + says(""), "no answer within 1s"},
		{"socks5://me:secret@" + says(""), "no answer within 1s"},
	} {
		limit := "ConnectTimeout=60"
		if strings.HasPrefix(test.why, "no answer within") {
			limit = "ConnectTimeout=1"
		}
		err := dialError(t, Target{Host: "127.0.0.1", Port: testenv.RefusedPort(t)},
			&Config{ConfigFile: "none", Proxy: test.proxy, Options: []string{limit}})
		var failed *ProxyError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), test.why) ||
			!strings.Contains(err.Error(), test.proxy[strings.LastIndex(test.proxy, "@")+1:]) ||
			strings.Contains(err.Error(), "secret") || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", test.proxy, err)
		}
	}
	for _, bad := range []string{"host:1080", "socks4://host:1080", "socks5://host", "http://:80",
		"https://host:443", "http://host:80/x", "socks5://host:0", "socks5://me:secret@ho st:1",
		"http://me:sec\x00ret@host:80", "socks5://host:123456", "env"} {
		_, err := New(testContext(t), Target{Host: "h"},
			&Config{ConfigFile: "none", Proxy: bad, Env: []string{"PATH=" + os.Getenv("PATH")}})
		if err == nil || strings.Contains(err.Error(), "secret") ||
			strings.Contains(err.Error(), "ret@") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := New(testContext(t), Target{Host: "h"},
		&Config{SSH: "ssh", Proxy: "socks5://host:1"}); err == nil {
		t.Error("the system's ssh was given a proxy")
	}
}

// A proxy on this machine does not make the host this machine, whose key need not be known.
func TestProxyIsNotTheHost(t *testing.T) {
	a := opensshd.Start(t, opensshd.Options{Alias: "a", NoKnownHosts: true})
	p := proxytest.Start(t, "socks5", "")
	c := &Config{ConfigFile: a.ConfigFile, Options: []string{"NoHostAuthenticationForLocalhost=yes"}}
	conn := connect(t, Target{Host: "a"}, c)
	conn.Close()
	c.Proxy = "socks5://" + p.Address
	var key *HostKeyError
	if err := dialError(t, Target{Host: "a"}, c); !errors.As(err, &key) {
		t.Errorf("the host's key counts as known: %v", err)
	}
	none(t)
}

func FuzzProxyAnswer(f *testing.F) {
	for _, answer := range []string{"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-x\r\n", "HTTP/1.0 407 no\n\n",
		"\n\n", "HTTP/1.1 2\r\n\r\n"} {
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		r := strings.NewReader(answer)
		if err := readAnswer(r); err != nil {
			return
		}
		head := answer[:len(answer)-r.Len()]
		if !strings.HasPrefix(head, "HTTP/1.") || strings.TrimRight(head, "\r\n") == head ||
			len(head) > mostAnswered {
			t.Errorf("%q was taken for consent", head)
		}
	})
}
