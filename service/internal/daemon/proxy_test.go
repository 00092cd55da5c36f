package daemon

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

// connectProxied connects to a listener that trusts some addresses, and returns the result of Accept.
func connectProxied(t *testing.T, trusted string) (accepted net.Conn, client *net.TCPConn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{started: &settings{proxies: []netip.Prefix{netip.MustParsePrefix(trusted)}}}
	l := s.proxied(inner)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); accepted.Close(); l.Close() })
	return accepted, conn.(*net.TCPConn)
}

// dialProxied works like connectProxied, and sends bytes.
func dialProxied(t *testing.T, trusted string, send []byte) (accepted net.Conn,
	local net.Addr) {
	t.Helper()
	accepted, client := connectProxied(t, trusted)
	if _, err := client.Write(send); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	return accepted, client.LocalAddr()
}

func TestProxyHeaders(t *testing.T) {
	t.Parallel()
	v2 := func(h *proxyproto.Header) []byte {
		t.Helper()
		h.Version = 2
		text, err := h.Format()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	client := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 4711}
	client6 := &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 4711}
	withTLV := proxyproto.HeaderProxyFromAddrs(2, client, client)
	if err := withTLV.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_NOOP,
		Value: make([]byte, 1000)}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		header string
		want   string // the address; "" is the balancer's own
	}{
		{"version 1", "PROXY TCP4 192.0.2.7 192.0.2.1 4711 22\r\n", "192.0.2.7:4711"},
		{"version 1, IPv6", "PROXY TCP6 2001:db8::7 2001:db8::1 4711 22\r\n", "[2001:db8::7]:4711"},
		{"version 1, a health check", "PROXY UNKNOWN\r\n", ""},
		{"version 2", string(v2(proxyproto.HeaderProxyFromAddrs(2, client, client))),
			"192.0.2.7:4711"},
		{"version 2, IPv6", string(v2(proxyproto.HeaderProxyFromAddrs(2, client6, client6))),
			"[2001:db8::7]:4711"},
		{"version 2, with more in it", string(v2(withTLV)), "192.0.2.7:4711"},
		{"version 2, a health check", string(v2(&proxyproto.Header{Command: proxyproto.LOCAL})),
			""},
	} {
		conn, balancer := dialProxied(t, "127.0.0.0/8", []byte(c.header+"SSH-2.0-x\r\n"))
		want := c.want
		if want == "" {
			want = balancer.String()
		}
		if got := conn.RemoteAddr().String(); got != want {
			t.Errorf("%s: the client is %s, want %s", c.name, got, want)
		}
		if check := conn.(*proxyConn).HealthCheck(); check != (c.want == "") {
			t.Errorf("%s: a health check: %v", c.name, check)
		}
		if rest, err := io.ReadAll(conn); err != nil || string(rest) != "SSH-2.0-x\r\n" {
			t.Errorf("%s: %q is left, %v", c.name, rest, err)
		}
	}
}

// A trusted peer must send a valid header; headers from others are not read.
func TestProxyHeadersRefused(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"none":                 "SSH-2.0-x\r\nand so on",
		"an endless line":      "PROXY " + strings.Repeat("x", 200),
		"nonsense":             "PROXY TCP4 a b c d\r\n",
		"cut off":              "PROXY TCP4 192.0.2.7 19",
		"version 2, cut off":   "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0cabc",
		"version 2, too long":  "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff" + strings.Repeat("x", 100),
		"version 2, too short": "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x02ab",
		"nothing":              "",
	} {
		conn, balancer := dialProxied(t, "127.0.0.1/32", []byte(header))
		if got := conn.RemoteAddr().String(); got != balancer.String() {
			t.Errorf("%s: the client is %s", name, got)
		}
		if check := conn.(*proxyConn).HealthCheck(); check != (header == "") {
			t.Errorf("%s: a health check: %v", name, check)
		}
		n, err := conn.Read(make([]byte, 1))
		if err == nil {
			t.Errorf("%s: the connection is still open, %d bytes", name, n)
		}
		if told := strings.Contains(fmt.Sprint(err), "no PROXY protocol header"); told ==
			(header == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn, other := dialProxied(t, "192.0.2.0/24",
		[]byte("PROXY TCP4 192.0.2.7 192.0.2.1 4711 22\r\n"))
	if got := conn.RemoteAddr().String(); got != other.String() {
		t.Errorf("somebody not trusted has claimed to be %s", got)
	}
	if first, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(first), "PROXY ") {
		t.Errorf("%q, %v", first, err)
	}
}

// TestProxyReset: a balancer's check that ends with a reset, as HAProxy's do, is one all the same.
func TestProxyReset(t *testing.T) {
	t.Parallel()
	conn, client := connectProxied(t, "127.0.0.0/8")
	client.SetLinger(0)
	client.Close()
	if !conn.(*proxyConn).HealthCheck() {
		t.Error("no check")
	}
}
