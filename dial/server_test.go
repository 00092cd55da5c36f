package dial

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A testServer is an SSH server within the test, for what sshd shows only with PAM or
// not at all.
type testServer struct {
	*ssh.ServerConfig
	key ssh.Signer
	// session, if set, serves the channel instead of sftp.
	session func(ch ssh.Channel, requests <-chan *ssh.Request)
	// hangUps is on how many connections the server hangs up once a login has succeeded.
	hangUps int
	// late, if set, is called before a channel is accepted. What comes for a channel before that is
	// dropped by x/crypto/ssh.
	late func()

	mu     sync.Mutex
	conns  int
	failed []string // authentication attempts that failed, by method
}

func newTestServer(t testing.TB) *testServer {
	s := &testServer{ServerConfig: new(ssh.ServerConfig), key: newSigner(t)}
	s.AddHostKey(s.key)
	s.MaxAuthTries = -1
	s.AuthLogCallback = func(_ ssh.ConnMetadata, method string, err error) {
		if err != nil {
			s.mu.Lock()
			s.failed = append(s.failed, method)
			s.mu.Unlock()
		}
	}
	return s
}

// failures gives the methods that failed since the last call.
func (s *testServer) failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.failed
	s.failed = nil
	return f
}

func (s *testServer) serve(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	conn, channels, requests, err := ssh.NewServerConn(c, s.ServerConfig)
	if err != nil {
		return
	}
	defer conn.Close()
	s.mu.Lock()
	s.hangUps--
	hangUp := s.hangUps >= 0
	s.mu.Unlock()
	if hangUp {
		return
	}
	go ssh.DiscardRequests(requests)
	for n := range channels {
		if s.late != nil {
			s.late()
		}
		ch, requests, err := n.Accept()
		if err != nil {
			return
		}
		if s.session != nil {
			go s.session(ch, requests)
			continue
		}
		go func() {
			for r := range requests {
				r.Reply(r.Type == "subsystem", nil)
			}
		}()
		go func() {
			defer ch.Close()
			var init [9]byte
			if _, err := io.ReadFull(ch, init[:]); err == nil {
				ch.Write([]byte{0, 0, 0, 5, 2, 0, 0, 0, 3})
				io.Copy(io.Discard, ch)
			}
		}()
	}
}

// dialer makes a Dialer that reaches s over a pipe, and needs nothing of this machine.
func (s *testServer) dialer(t testing.TB, c *Config) *Dialer {
	t.Helper()
	home := t.TempDir()
	if c.Env == nil {
		c.Env = append(withoutSSH(home), "SSH_AUTH_SOCK=", stackEnv+"="+os.Getenv(stackEnv))
	}
	if c.ConfigFile == "" {
		c.ConfigFile = "none"
	}
	c.Options = append(c.Options, "GlobalKnownHostsFile=none",
		"UserKnownHostsFile="+writeFile(t, home+"/kh", "h "+authorizedLine(s.key.PublicKey())+"\n"))
	d, err := New(context.Background(), Target{Host: "h", User: "me"}, c)
	if err != nil {
		t.Fatal(err)
	}
	d.tcp = func(context.Context) (net.Conn, error) {
		ours, theirs := socketPair()
		go s.serve(theirs)
		return ours, nil
	}
	return d
}

// socketPair is net.Pipe with a buffer: two ends of SSH may both talk first.
func socketPair() (net.Conn, net.Conn) {
	a, b := new(half), new(half)
	a.cond, b.cond = sync.NewCond(&a.mu), sync.NewCond(&b.mu)
	return &pairConn{in: a, out: b}, &pairConn{in: b, out: a}
}

// A half carries bytes one way.
type half struct {
	mu     sync.Mutex
	cond   *sync.Cond
	buf    []byte
	closed bool
}

type pairConn struct {
	net.Conn // panics on what is not used here
	in, out  *half
}

func (p *pairConn) Read(b []byte) (int, error) {
	h := p.in
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 && !h.closed {
		h.cond.Wait()
	}
	if len(h.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(b, h.buf)
	h.buf = h.buf[n:]
	return n, nil
}

func (p *pairConn) Write(b []byte) (int, error) {
	h := p.out
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, errors.New("closed")
	}
	h.buf = append(h.buf, b...)
	h.cond.Broadcast()
	return len(b), nil
}

func (p *pairConn) Close() error {
	for _, h := range []*half{p.in, p.out} {
		h.mu.Lock()
		h.closed = true
		h.cond.Broadcast()
		h.mu.Unlock()
	}
	return nil
}

func (p *pairConn) SetWriteDeadline(time.Time) error { return nil }

func (p *pairConn) LocalAddr() net.Addr  { return remoteAddr }
func (p *pairConn) RemoteAddr() net.Addr { return remoteAddr }
