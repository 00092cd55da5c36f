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
	lines  map[*line]struct{}
	count  int
	closed bool
	moving chan struct{} // closed while bytes may pass
	holds  []func()      // end what Hold has begun
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
		open: make(map[net.Conn]struct{}), lines: make(map[*line]struct{}),
		moving: make(chan struct{})}
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
	p.restore()
}

// restore is Restore for callers that hold the lock.
func (p *Proxy) restore() {
	select {
	case <-p.moving:
	default:
		close(p.moving)
	}
}

// Hold holds back the bytes of the connections that are open, and lets new connections pass: when a
// link comes back, TCP may take minutes before it resends on an old connection. release lets pass
// what senders that have not reset their connections still want to send: the last of it before the
// end of the stream, so that a server answers. It returns when those connections have ended.
func (p *Proxy) Hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make([]*line, 0, len(p.lines))
	hold := make(chan struct{})
	for l := range p.lines {
		l.hold, l.heard = hold, make(chan struct{})
		held = append(held, l)
	}
	pass := sync.OnceFunc(func() { close(hold) })
	p.holds = append(p.holds, pass)
	return func() {
		pass()
		for _, l := range held {
			<-l.over
		}
	}
}

// wait returns when bytes of a connection may pass, and whether Hold has held them.
func (p *Proxy) wait(l *line) (held bool) {
	p.mu.Lock()
	moving, hold := p.moving, l.hold
	p.mu.Unlock()
	<-moving
	if hold != nil {
		<-hold
	}
	return hold != nil
}

// close ends the proxy and all connections through it.
func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.restore()
	for _, release := range p.holds {
		release()
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
	l := &line{both: [2]net.Conn{client, server}, over: make(chan struct{})}
	l.wait = func() bool { return p.wait(l) }
	if p.count < len(p.breaks) {
		l.after = p.breaks[p.count]
	}
	p.count++
	p.open[client], p.open[server] = struct{}{}, struct{}{}
	p.lines[l] = struct{}{}
	p.work.Go(func() {
		var both sync.WaitGroup
		both.Go(func() { l.pass(server, client) })
		both.Go(func() { l.pass(client, server) })
		both.Wait()
		close(l.over)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.lines, l)
		for _, c := range l.both {
			delete(p.open, c)
			c.Close()
		}
	})
}

// line is one proxied connection.
type line struct {
	after int64 // 0 for one that does not break
	wait  func() (held bool)
	both  [2]net.Conn
	heard chan struct{} // closed when the server has sent something after it was held
	// closed when bytes may pass, nil if they always may; the proxy's lock guards it
	hold chan struct{}
	over chan struct{} // closed when all has passed that will

	once sync.Once
	late bool // a client's bytes have passed after the hold

	mu     sync.Mutex
	passed int64
}

// pass forwards one direction until the connection ends or breaks.
func (l *line) pass(to, from net.Conn) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		held := l.wait()
		if held && isReset(from) {
			reset(to)
			return
		}
		if held {
			l.afterHold(from, n, err)
		}
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

// afterHold makes the end of a client's stream wait until the server has said something to it.
func (l *line) afterHold(from net.Conn, n int, err error) {
	if from == l.both[1] {
		l.once.Do(func() { close(l.heard) })
		return
	}
	l.late = l.late || n > 0
	if err != nil && l.late {
		<-l.heard
	}
}

// allow returns how many of n bytes pass, and whether the connection is cut after them.
func (l *line) allow(n int) (passing int, broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.after > 0 && l.passed+int64(n) >= l.after {
		n, broken = int(l.after-l.passed), true
	}
	l.passed += int64(n)
	return n, broken
}

// isReset reports whether a connection was reset by its peer. What arrived before can still be
// read, but on a link that is down it would have been lost.
func isReset(c net.Conn) (yes bool) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) { yes = socketError(fd) != nil })
	return yes
}

// reset ends a connection as a crash would: with RST.
func reset(c net.Conn) {
	tcp := c.(*net.TCPConn)
	if raw, err := tcp.SyscallConn(); err == nil {
		raw.Control(disconnect)
	}
	tcp.SetLinger(0)
	tcp.Close()
}
