package daemon

import (
	"net"
	"net/netip"
	"sync"

	"github.com/usftp/usftp/server/sshd"
)

// Limits on the connections to the address of metrics and the status page: anybody who can reach it
// can keep some open, and they take memory and descriptors that logins need.
const (
	mostConnections = 512
	mostOfOne       = 64 // of an IPv4 address, or an IPv6 /64
)

// admitting is a listener that closes connections beyond the limits.
type admitting struct {
	net.Listener

	mu    sync.Mutex
	all   int
	those map[netip.Prefix]int
}

func newAdmitting(l net.Listener) *admitting {
	return &admitting{Listener: l, those: map[netip.Prefix]int{}}
}

func (a *admitting) Accept() (net.Conn, error) {
	for {
		conn, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var network netip.Prefix
		if end, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
			network = sshd.Network(end.AddrPort().Addr())
		}
		if a.takes(network) {
			return &admitted{Conn: conn, leave: sync.OnceFunc(func() { a.leaves(network) })}, nil
		}
		conn.Close()
	}
}

func (a *admitting) takes(network netip.Prefix) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all >= mostConnections || a.those[network] >= mostOfOne {
		return false
	}
	a.all++
	a.those[network]++
	return true
}

func (a *admitting) leaves(network netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all--
	if a.those[network]--; a.those[network] == 0 {
		delete(a.those, network)
	}
}

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn
	leave func()
}

func (c *admitted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
