// Package turns counts the round trips of a TCP client on the wire. A proxy delays what passes and
// keeps the order of cause and effect: what one side sends can depend only on what has reached it.
// So everything has a level, the number of round trips that its sender can have waited for, and the
// level of a file's first bytes is what reaching them cost. The delay keeps what is sent at once
// apart from what is sent upon an answer; how fast the machine is, or how long either side
// computes, changes no level.
package turns

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Config is a proxy's.
type Config struct {
	// Target is the address of the server.
	Target string
	// RTT is the time there and back that the proxy adds. It should be longer than a client takes
	// to send what it need not wait with.
	RTT time.Duration
	// Upload says that the file goes to the server; else it comes from there.
	Upload bool
	// Mark is the number of bytes in that direction that no login has, so that their passing shows
	// the file.
	Mark int64
}

// Count is what one run of a client showed.
type Count struct {
	// RoundTrips from the first connection to the first bytes of the file, without TCP's own
	// handshake.
	RoundTrips int
	// Connections that the client made in all.
	Connections int
	// Reached reports whether the mark was passed.
	Reached bool
}

// Proxy relays connections to a server.
type Proxy struct {
	config   Config
	listener net.Listener
	wait     sync.WaitGroup

	mu     sync.Mutex
	count  Count
	passed int64
	heard  int // the highest level that has reached the client
	conns  map[net.Conn]bool
}

// Listen starts a proxy on a free port of 127.0.0.1.
func Listen(config Config) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{config: config, listener: listener, conns: map[net.Conn]bool{}}
	p.wait.Go(p.accept)
	return p, nil
}

// Port is the one it listens on.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Level returns the number of round trips that have come back to the client so far.
func (p *Proxy) Level() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// Close ends every connection and returns the count.
func (p *Proxy) Close() Count {
	p.listener.Close()
	p.mu.Lock()
	for conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wait.Wait()
	return p.count
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.count.Connections++
		p.mu.Unlock()
		p.wait.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.config.Target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	if p.conns == nil { // closed meanwhile
		client.Close()
		server.Close()
	} else {
		p.conns[client], p.conns[server] = true, true
	}
	p.mu.Unlock()
	// A server knows only what its own connection has brought; the client knows all.
	known := 0
	var directions sync.WaitGroup
	directions.Go(func() {
		p.relay(client, server, p.config.Upload, func() int { return p.heard }, &known)
	})
	directions.Go(func() {
		p.relay(server, client, !p.config.Upload, func() int { return known + 1 }, &p.heard)
	})
	directions.Wait()
	client.Close()
	server.Close()
}

type chunk struct {
	arrival time.Time
	level   int
	data    []byte
}

// relay carries one direction. level tells that of what is sent now, and reached keeps the highest
// that has come to the end of its way; both are guarded by p.mu.
func (p *Proxy) relay(from, to net.Conn, carriesFile bool, level func() int, reached *int) {
	onTheWay := make(chan chunk, 1024)
	var deliveries sync.WaitGroup
	deliveries.Go(func() {
		for c := range onTheWay {
			time.Sleep(time.Until(c.arrival))
			// Before the write, because the answer may be quicker than its return.
			p.delivered(c, carriesFile, reached)
			to.Write(c.data) // the other end's reader reports a failure
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
	})
	for {
		data := make([]byte, 64<<10)
		n, err := from.Read(data)
		if n > 0 {
			p.mu.Lock()
			now := level()
			p.mu.Unlock()
			onTheWay <- chunk{time.Now().Add(p.config.RTT / 2), now, data[:n]}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				to.Close()
			}
			break
		}
	}
	close(onTheWay)
	deliveries.Wait()
}

func (p *Proxy) delivered(c chunk, carriesFile bool, reached *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*reached = max(*reached, c.level)
	if !carriesFile || p.count.Reached {
		return
	}
	p.passed += int64(len(c.data))
	if p.passed > p.config.Mark {
		p.count.Reached = true
		p.count.RoundTrips = c.level
	}
}
