package dial

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A socket is the net.Conn under a transport. It records when the peer was last heard from.
type socket struct {
	net.Conn
	sniff  *sniffer
	heard  atomic.Int64 // the time of the peer's last bytes, UnixNano
	closed atomic.Bool
	// ack has the kernel acknowledge what has arrived; nil if that need not be at once
	ack atomic.Pointer[func()]
}

func newSocket(c net.Conn, sniff *sniffer) *socket { return &socket{Conn: c, sniff: sniff} }

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.heard.Store(time.Now().UnixNano())
		s.sniff.saw(p[:n])
		if ack := s.ack.Load(); ack != nil && n < mostAcked {
			(*ack)()
		}
	}
	return n, err
}

// mostAcked is the size of reads that are acknowledged at once: more is, anyway.
const mostAcked = 1024

// ackAtOnce acknowledges short answers at once. This machine would wait for 40 ms, in case that it
// has something to send along, and a server that has Nagle's algorithm sends its next answer only
// then. OpenSSH's and Go's have turned it off; paramiko's has not.
func (s *socket) ackAtOnce() {
	if tcp, ok := s.Conn.(*net.TCPConn); ok {
		if ack := acknowledge(tcp); ack != nil {
			s.ack.Store(&ack)
		}
	}
}

// Close closes the connection once, so a second caller gets no confusing error.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	// If the command has already ended, sending our version fails, and the transport closes before
	// it has read the command's output.
	if p, ok := s.Conn.(*proxyConn); ok && s.heard.Load() == 0 {
		if rest := p.remainingOutput(); len(rest) > 0 {
			s.sniff.saw(rest)
		}
	}
	return s.Conn.Close()
}

// reset closes the socket and drops the kernel's unsent data. Otherwise the kernel would keep
// sending it for minutes, and a WRITE that arrives after a new connection has written to the same
// place would overwrite newer data.
func (s *socket) reset() {
	if tcp, ok := s.Conn.(interface{ SetLinger(seconds int) error }); ok {
		tcp.SetLinger(0) // fails only if the socket is closed
	}
	s.Close()
}

// sniffLimit is how many of a peer's first bytes are kept for a message.
const sniffLimit = 512

// A sniffer keeps the peer's first bytes until the peer turns out to speak SSH.
type sniffer struct {
	mu    sync.Mutex
	first []byte
	last  []byte // the last bytes that came, which may be the beginning of a version
	ssh   bool
	// notSSH is called once, if they turn out to be something else.
	notSSH func()
}

func (s *sniffer) saw(p []byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ssh {
		return
	}
	// RFC 4253, 4.2: the server may send other lines before its version, however many.
	if len(s.first) == 0 {
		s.last = []byte("\n")
	}
	s.first = append(s.first, p[:min(len(p), sniffLimit-len(s.first))]...)
	s.last = append(s.last, p...)
	if bytes.Contains(s.last, []byte("\nSSH-")) {
		s.ssh, s.first, s.last = true, nil, nil
		return
	}
	s.last = bytes.Clone(s.last[max(0, len(s.last)-len("SSH-")):])
	if len(s.first) >= len("SSH-") && s.notSSH != nil {
		s.notSSH()
		s.notSSH = nil
	}
}

func (s *sniffer) sawSSH() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ssh
}

func (s *sniffer) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimSpace(string(s.first))
	line, _, _ := strings.Cut(text, "\n")
	return printable([]byte(line))
}
