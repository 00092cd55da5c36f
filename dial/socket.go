package dial

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// readSize is how much is read from a socket at once. x/crypto/ssh asks for 4 KiB and
// then for the rest of each packet: two system calls or more for 32 KiB.
const readSize = 256 << 10

// A socket is the net.Conn under x/crypto/ssh. Its reads fill a large buffer, which it
// holds only while there is something in it: an idle connection pins nothing.
type socket struct {
	net.Conn
	fill func() (*[]byte, int, error) // waits, then reads once into a buffer of pool's

	buf    *[]byte // holds unread bytes r to w, nil without any
	r, w   int
	pool   *sync.Pool // of *[]byte
	sniff  *sniffer
	told   func(bytes int) // Config.Received, or nil
	heard  atomic.Int64    // when the peer was last heard of, UnixNano
	closed atomic.Bool

	joins  atomic.Bool // see join
	head   []byte      // the first write of a packet whose second is awaited
	pieces net.Buffers
}

func newSocket(c net.Conn, sniff *sniffer, told func(bytes int)) *socket {
	s := &socket{Conn: c, sniff: sniff, told: told}
	s.pool = &sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}
	s.fill = filler(c, s.pool)
	return s
}

// Read is called by one goroutine at a time: the transport's.
func (s *socket) Read(p []byte) (n int, err error) {
	if s.buf == nil {
		if s.fill == nil { // no system call to save
			n, err = s.Conn.Read(p)
			s.hear(p[:n])
			return n, err
		}
		if s.buf, s.w, err = s.fill(); err != nil {
			return 0, err
		}
		s.r = 0
		s.hear((*s.buf)[:s.w])
	}
	n = copy(p, (*s.buf)[s.r:s.w])
	if s.r += n; s.r == s.w {
		s.pool.Put(s.buf)
		s.buf = nil
	}
	return n, nil
}

func (s *socket) hear(p []byte) {
	if len(p) > 0 {
		s.heard.Store(time.Now().UnixNano())
		s.sniff.saw(p)
		if s.told != nil {
			s.told(len(p))
		}
	}
}

// Close is idempotent, so that whoever comes second gets no odd error.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.Conn.Close()
}

// sniffLimit is how much of a peer's first words is kept for a message.
const sniffLimit = 512

// A sniffer keeps what a peer says first, until it turns out to be SSH.
type sniffer struct {
	mu    sync.Mutex
	first []byte
	ssh   bool
	// odd is called once, when the peer began with something else.
	odd func()
}

func (s *sniffer) saw(p []byte) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ssh || len(s.first) >= sniffLimit {
		return
	}
	s.first = append(s.first, p[:min(len(p), sniffLimit-len(s.first))]...)
	// RFC 4253, 4.2: the server may send other lines before its version.
	if bytes.HasPrefix(s.first, []byte("SSH-")) || bytes.Contains(s.first, []byte("\nSSH-")) {
		s.ssh, s.first = true, nil
		return
	}
	if len(s.first) >= len("SSH-") && s.odd != nil {
		s.odd()
		s.odd = nil
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
