package serve

import (
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// processors has the program run on as many processors as it has connections, up to most. What one
// connection brings is done one after the other; with a second processor the runtime wakes a thread
// for each of the half dozen goroutines that a packet passes through, and looks for work in
// between, at a fifth of the whole processor time. A nil *processors leaves all as it is.
type processors struct {
	most int
	set  func(n int)

	mu          sync.Mutex
	connections int
	running     int // processors that are set
	peak        int // the most connections since the timer last ran
	timer       *time.Timer
	ticking     bool
}

// processorsIdle is how long a processor that is not needed stays: to change their number stops the
// program for a moment.
const processorsIdle = time.Second

func newProcessors(most int) *processors {
	if most <= 1 {
		return nil
	}
	return &processors{most: most, set: func(n int) { runtime.GOMAXPROCS(n) }}
}

// count wraps a listener, whose connections count from Accept to Close.
func (p *processors) count(l net.Listener) net.Listener {
	if p == nil {
		return l
	}
	return &countedListener{l, p}
}

func (p *processors) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections++
	p.peak = max(p.peak, p.connections)
	p.run(max(p.running, p.connections))
}

func (p *processors) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections--
	p.wait()
}

// run sets the number of processors.
func (p *processors) run(n int) {
	if n = min(max(n, 1), p.most); n != p.running {
		p.running = n
		p.set(n)
	}
}

// wait has the timer take back what is not needed.
func (p *processors) wait() {
	if p.ticking || p.running <= max(p.connections, 1) {
		return
	}
	p.ticking = true
	if p.timer == nil {
		p.timer = time.AfterFunc(processorsIdle, p.tick)
	} else {
		p.timer.Reset(processorsIdle)
	}
}

func (p *processors) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ticking = false
	p.run(min(p.running, p.peak))
	p.peak = p.connections
	p.wait()
}

type countedListener struct {
	net.Listener
	processors *processors
}

// socket is a connection from which the server can read in large pieces.
type socket interface {
	net.Conn
	syscall.Conn
}

func (l *countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	of, ok := conn.(socket)
	if !ok {
		return conn, nil
	}
	l.processors.enter()
	return &countedConn{socket: of, processors: l.processors}, nil
}

type countedConn struct {
	socket
	processors *processors
	once       sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(c.processors.leave)
	return c.socket.Close()
}
