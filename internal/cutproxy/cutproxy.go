// Package cutproxy is a TCP proxy for tests that breaks connections: each after a number of bytes
// that the test chooses, so that nothing depends on timing, or all at once at the test's command.
// It can also hold back all data, like a link that is down.
package cutproxy

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards connections to one address.
type Proxy struct {
	Host string
	Port int

	listener net.Listener
	target   string
	work     sync.WaitGroup

	mu     sync.Mutex
	breaks []int64
	open   map[net.Conn]struct{}
	count  int
	closed bool
	moving chan struct{} // closed while bytes may pass
}

// Start runs a proxy until the test ends. The first connection breaks after breaks[0] bytes,
// counting both directions, and so on; connections beyond the last of breaks do not break.
func Start(t testing.TB, target string, breaks ...int64) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr)
	p := &Proxy{Host: "127.0.0.1", Port: addr.Port, listener: l, target: target, breaks: breaks,
		open: make(map[net.Conn]struct{}), moving: make(chan struct{})}
	close(p.moving)
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Connections returns how many connections the proxy has accepted.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Cut breaks all open connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		reset(c)
	}
}

// Stall holds back all data, that of new connections too, until Restore.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.moving:
		p.moving = make(chan struct{})
	default:
	}
}

// Restore forwards data again.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.moving:
	default:
		close(p.moving)
	}
}

// wait returns when data may pass.
func (p *Proxy) wait() {
	p.mu.Lock()
	moving := p.moving
	p.mu.Unlock()
	<-moving
}

// close ends the proxy and all connections through it.
func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	select {
	case <-p.moving:
	default:
		close(p.moving)
	}
	for c := range p.open {
		reset(c)
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.begin(client, server)
	}
}

func (p *Proxy) begin(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		client.Close()
		server.Close()
		return
	}
	l := &line{wait: p.wait, both: [2]net.Conn{client, server}}
	if p.count < len(p.breaks) {
		l.after = p.breaks[p.count]
	}
	p.count++
	p.open[client], p.open[server] = struct{}{}, struct{}{}
	p.work.Go(func() {
		var ways sync.WaitGroup
		ways.Go(func() { l.pass(server, client) })
		ways.Go(func() { l.pass(client, server) })
		ways.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range l.both {
			delete(p.open, c)
			c.Close()
		}
	})
}

// line is one proxied connection.
type line struct {
	after int64 // 0 for never
	wait  func()
	both  [2]net.Conn

	mu     sync.Mutex
	passed int64
}

// pass forwards one direction until the connection ends or breaks.
func (l *line) pass(to, from net.Conn) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		l.wait()
		n, broken := l.allow(n)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				reset(from)
				return
			}
		}
		if broken {
			reset(l.both[0])
			reset(l.both[1])
			return
		}
		if err != nil {
			to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// allow returns how many of n bytes may pass, and whether the connection breaks after them.
func (l *line) allow(n int) (passing int, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.after > 0 && l.passed+int64(n) >= l.after {
		n, broken = int(l.after-l.passed), true
	}
	l.passed += int64(n)
	return n, broken
}

// reset ends a connection so that the peer sees a reset, as after a crash.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}
