// Package proxytest has proxies for tests: SOCKS5 (RFC 1928, 1929) and HTTP (CONNECT).
package proxytest

import (
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// Proxy is a running proxy.
type Proxy struct {
	Address string // host:port
	Login   string // "user:password", or "" for none

	mu      sync.Mutex
	known   map[string]string
	targets []string
}

// Start runs a proxy until the test ends. The scheme is "socks5" or "http".
func Start(t testing.TB, scheme, login string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: l.Addr().String(), Login: login, known: make(map[string]string)}
	if scheme == "http" {
		t.Cleanup(func() { l.Close() })
		go http.Serve(l, http.HandlerFunc(p.connect))
		return p
	}
	testenv.Accept(t, l, p.socks)
	return p
}

// Know gives a name that only the proxy can resolve an address.
func (p *Proxy) Know(host, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[host] = address
}

// Targets returns the addresses that the proxy was asked for, as they were named.
func (p *Proxy) Targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.targets)
}

// dial connects to a target.
func (p *Proxy) dial(host, port string) (net.Conn, error) {
	p.mu.Lock()
	p.targets = append(p.targets, net.JoinHostPort(host, port))
	if known, ok := p.known[host]; ok {
		host = known
	}
	p.mu.Unlock()
	return net.Dial("tcp", net.JoinHostPort(host, port))
}

// relay copies what from yields of a client to a target, and back, until either side ends.
func relay(client, target net.Conn, from io.Reader) {
	defer client.Close()
	defer target.Close()
	go func() {
		io.Copy(client, target)
		client.Close()
	}()
	io.Copy(target, from)
}

// connect serves CONNECT.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	wanted := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.Login))
	if p.Login != "" && r.Header.Get("Proxy-Authorization") != wanted {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil || r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	to, err := p.dial(host, port)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	conn, read, err := http.NewResponseController(w).Hijack()
	if err != nil {
		to.Close()
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	relay(conn, to, read)
}

// socks serves one SOCKS5 connection.
func (p *Proxy) socks(conn net.Conn) {
	defer conn.Close()
	read := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			return make([]byte, n)
		}
		return b
	}
	counted := func() string { return string(read(int(read(1)[0]))) }
	methods := read(1)
	if methods[0] != 5 {
		return
	}
	offered, method := []byte(counted()), byte(0)
	if p.Login != "" {
		method = 2
	}
	if !slices.Contains(offered, method) {
		conn.Write([]byte{5, 0xff})
		return
	}
	conn.Write([]byte{5, method})
	if method == 2 {
		read(1)
		if counted()+":"+counted() != p.Login {
			conn.Write([]byte{1, 1})
			return
		}
		conn.Write([]byte{1, 0})
	}
	host := ""
	switch read(4)[3] {
	case 1:
		host = net.IP(read(4)).String()
	case 3:
		host = counted()
	case 4:
		host = net.IP(read(16)).String()
	}
	port := strconv.Itoa(int(binary.BigEndian.Uint16(read(2))))
	reply := []byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	to, err := p.dial(host, port)
	if err != nil {
		reply[1] = 5 // connection refused
		conn.Write(reply)
		return
	}
	conn.Write(reply)
	relay(conn, to, conn)
}
