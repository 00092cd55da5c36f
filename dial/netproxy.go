package dial

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/proxy"
)

// A netProxy is a SOCKS5 (RFC 1928) or HTTP proxy (CONNECT, RFC 9110, section 9.3.6) that connects
// to hosts that cannot be reached from here. It resolves the names, too.
type netProxy struct {
	scheme  string // socks5 or http
	address string
	login   *url.Userinfo // nil for none
}

// proxyFromEnv is the value of Config.Proxy that means ALL_PROXY.
const proxyFromEnv = "env"

var errProxyURL = errors.New(
	"must be socks5://host:port or http://host:port, with user:password@ before the host if it wants a login")

// newNetProxy returns the proxy for a host, nil if there is none.
func newNetProxy(c *Config, host string) (*netProxy, error) {
	name, text := "the proxy", c.Proxy
	if text == "" {
		return nil, nil
	}
	if text == proxyFromEnv {
		name, text = "ALL_PROXY", cmp.Or(c.getenv("ALL_PROXY"), c.getenv("all_proxy"))
		if text == "" {
			return nil, errors.New("the environment variable ALL_PROXY, which was asked for, is not set")
		}
		if exempt(host, cmp.Or(c.getenv("NO_PROXY"), c.getenv("no_proxy"))) {
			return nil, nil
		}
	}
	u, err := url.Parse(text)
	if err != nil { // the error quotes the whole URL, with the password
		return nil, fmt.Errorf("%s: %w", name, errProxyURL)
	}
	p := &netProxy{scheme: strings.TrimSuffix(u.Scheme, "h"), address: u.Host, login: u.User}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if p.scheme != "socks5" && u.Scheme != "http" || err != nil || port == 0 ||
		u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%s: %w", name, errProxyURL)
	}
	return p, nil
}

// exempt reports whether a host is in the list of NO_PROXY. As for curl, a name stands for the
// hosts of its domain, too, whether or not it begins with a dot, and "*" for all.
func exempt(host, list string) bool {
	through, around := new(choice), new(choice)
	all := proxy.NewPerHost(through, around)
	for entry := range strings.FieldsFuncSeq(strings.ToLower(list),
		func(r rune) bool { return r == ',' || r == ' ' }) {
		switch {
		case entry == "*":
			return true
		case strings.Contains(entry, "/") || net.ParseIP(entry) != nil:
			all.AddFromString(entry)
		default:
			all.AddZone(strings.TrimPrefix(entry, "*"))
		}
	}
	all.Dial("tcp", net.JoinHostPort(strings.ToLower(host), "0"))
	return bool(*around)
}

// A choice is a [proxy.Dialer] that only notes that it was chosen.
type choice bool

func (c *choice) Dial(string, string) (net.Conn, error) {
	*c = true
	return nil, net.ErrClosed
}

// String returns the proxy as it was named, without the login.
func (p *netProxy) String() string { return p.scheme + "://" + p.address }

// connect asks the proxy at the other end of conn to connect to an address.
func (p *netProxy) connect(ctx context.Context, conn net.Conn, to string) error {
	if p.scheme == "http" {
		stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
		err := p.connectHTTP(conn, to)
		if !stop() {
			return context.Cause(ctx)
		}
		return err
	}
	var login *proxy.Auth
	if p.login != nil {
		password, _ := p.login.Password()
		login = &proxy.Auth{User: p.login.Username(), Password: password}
	}
	socks, err := proxy.SOCKS5("tcp", p.address, login, connected{conn})
	if err == nil {
		_, err = socks.(proxy.ContextDialer).DialContext(ctx, "tcp", to)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && strings.HasPrefix(op.Op, "socks") {
		err = op.Err
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // the connection has the same deadline, which may expire a moment earlier
		return context.Cause(ctx)
	}
	return err
}

// connected is a [proxy.Dialer] that has connected already, so it drops wrappers around it.
type connected struct{ net.Conn }

func (c connected) Dial(string, string) (net.Conn, error) { return c.Conn, nil }

func (c connected) DialContext(context.Context, string, string) (net.Conn, error) {
	return c.Conn, nil
}

// mostAnswered limits the header of a proxy's answer.
const mostAnswered = 16 << 10

// connectHTTP asks an HTTP proxy for a connection to an address (RFC 9110, section 9.3.6).
func (p *netProxy) connectHTTP(conn net.Conn, to string) error {
	request := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n", to, to)
	if p.login != nil {
		password, _ := p.login.Password()
		request += "Proxy-Authorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte(p.login.Username()+":"+password)) + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return err
	}
	return readAnswer(conn)
}

// readAnswer reads a proxy's answer to CONNECT, and nothing past its header: the host's first bytes
// follow.
func readAnswer(r io.Reader) error {
	var answer []byte
	for b := []byte{0}; !bytes.HasSuffix(answer, []byte("\n\r\n")) &&
		!bytes.HasSuffix(answer, []byte("\n\n")); answer = append(answer, b[0]) {
		if len(answer) == mostAnswered {
			return errors.New("answer is too long")
		}
		if _, err := io.ReadFull(r, b); err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
	}
	answer, _, _ = bytes.Cut(answer[:min(len(answer), sniffLimit)], []byte("\n"))
	line := printable(answer)
	version, status, _ := strings.Cut(line, " ")
	switch {
	case !strings.HasPrefix(version, "HTTP/1."):
		return fmt.Errorf("does not speak HTTP; it said: %q", line)
	case strings.HasPrefix(status, "407"):
		return fmt.Errorf("answered %q: it wants a login, or another one", status)
	case len(status) < 3 || status[0] != '2':
		return fmt.Errorf("answered %q", status)
	}
	return nil
}

// connectProxy connects through the proxy.
func (d *Dialer) connectProxy(ctx context.Context, sniff *sniffer) (*route, error) {
	to := d.s.address()
	fail := func(err error) (*route, error) {
		return nil, &ProxyError{Proxy: d.proxy.String(), To: to, Err: err}
	}
	conn, err := d.connectTo(ctx, d.proxy.address)
	if err != nil {
		return fail(err)
	}
	within := cmp.Or(d.s.connectTimeout, jumpStall)
	limit, cancel := context.WithTimeoutCause(ctx, within, &timeoutError{"connecting", within})
	defer cancel()
	if err := d.proxy.connect(limit, conn, to); err != nil {
		conn.Close()
		return fail(err)
	}
	return &route{conn: newSocket(conn, sniff), proxied: true}, nil
}
