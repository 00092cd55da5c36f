package sshd

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/lograte"
)

// connection is an accepted connection.
type connection struct {
	net.Conn
	server   *Server
	secure   atomic.Pointer[transport.Conn] // set after the login
	moved    atomic.Int64                   // last byte received or sent, in ns since 1970
	heard    atomic.Bool                    // a byte has been received
	activity server.Activity
	sessions int // under the server's lock
}

// Read and Write record when something moved.

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
		c.moved.Store(time.Now().UnixNano())
	}
	return n, err
}

func (c *connection) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.moved.Store(time.Now().UnixNano())
	}
	return n, err
}

// watchIdle closes the connection when nothing has moved for timeout and no request is running. A
// client that has stopped taking what it is sent may get twice that time.
func (c *connection) watchIdle(timeout time.Duration, log *slog.Logger) (stop func()) {
	if timeout < 0 {
		return func() {}
	}
	var mu sync.Mutex
	var timer *time.Timer
	taken, _ := acknowledged(c.Conn)
	check := func() {
		mu.Lock()
		defer mu.Unlock()
		if timer == nil {
			return
		}
		// In this order: a request that ends in between is seen as running, or as having just
		// ended.
		running := c.activity.Running()
		left := timeout - min(time.Since(time.Unix(0, c.moved.Load())),
			time.Since(c.activity.Last()))
		before, waiting := taken, false
		if left <= 0 {
			taken, waiting = acknowledged(c.Conn)
		}
		switch {
		case left > 0:
			timer.Reset(left)
		case running > 0, waiting && taken != before:
			timer.Reset(timeout)
		default:
			log.Info("idle connection closed", "seconds", timeout.Seconds())
			c.Close()
		}
	}
	c.moved.Store(time.Now().UnixNano())
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(timeout, check)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
		timer = nil
	}
}

// ServeConn serves one connection until it ends.
func (s *Server) ServeConn(raw net.Conn) {
	conn := &connection{Conn: raw, server: s}
	if !s.track(func() { s.conns[conn] = struct{}{} }) {
		raw.Close()
		return
	}
	defer s.untrack(func() { delete(s.conns, conn) })
	defer conn.Close()
	state := s.state.Load()
	tried := attempts{log: s.strangers(&state.Config, raw.RemoteAddr())}
	secure, err := s.login(state, conn, &tried)
	if err != nil {
		tried.log.Info("login failed", append(tried.args(), "error", err)...)
		return
	}
	log := lograte.ByByte(state.Logger.With("remote", raw.RemoteAddr().String(), "user",
		secure.User()), s.bytes.Of(secure.User()))
	access := secure.Permissions().ExtraData[accessKey{}].(*Access)
	usage := s.users.enter(secure.User(), access.mostConnections())
	if usage == nil {
		log.Warn("session refused", "reason", "too many connections of the user")
		secure.Disconnect(tooManyConnections, "too many connections of the user")
		return
	}
	defer s.users.leave(secure.User())
	log.Info("logged in", "client", string(secure.ClientVersion()))
	stop := conn.watchIdle(state.IdleTimeout, log)
	defer stop()
	l := &login{
		server:   s,
		conn:     conn,
		access:   access,
		sessions: cmp.Or(access.Sessions, usage.sessions),
		patience: state.LoginTimeout,
		client:   string(secure.ClientVersion()),
		log:      log,
	}
	l.policy = l.access.Policy
	l.policy.User = secure.User()
	l.serve(secure, state.MaxSessions)
	log.Info("connection closed")
}

// tooManyConnections is a reason of RFC 4253, section 11.1.
const tooManyConnections = 12

// login authenticates the client.
func (s *Server) login(state *state, conn *connection,
	tried *attempts) (secure *transport.Conn, err error) {
	address := addressOf(conn.RemoteAddr())
	if !state.Exempt(address) {
		place, reason := s.guard.begin(address, state.loginLimits(), func() { conn.Close() })
		if reason != "" {
			return nil, notServed(reason)
		}
		defer func() {
			switch dropped := s.guard.end(place); {
			case err == nil:
				s.guard.loggedIn(address)
			case dropped:
				err = errDropped
			default:
				s.blame(&state.Config, conn.RemoteAddr(), tried.weight(conn, err))
			}
		}()
	}
	if secure, err = transport.Server(conn, tried.noting(state.ssh)); err == nil {
		conn.secure.Store(secure)
	}
	return secure, err
}

// hangUp closes the connection once what has been written is on its way, which may take a second.
func (c *connection) hangUp() {
	if secure := c.secure.Load(); secure != nil {
		secure.Close()
	}
	c.Close()
}

// errDropped reports that a connection lost its place to another.
var errDropped = notServed("it was too slow while too many others were logging in")

// notServed is why a connection was turned away before the handshake.
type notServed string

func (r notServed) Error() string { return string(r) }

// serve accepts channels until the connection ends, and then waits for their sessions.
func (l *login) serve(secure *transport.Conn, most int) {
	connected, cancel := context.WithCancel(l.server.ctx)
	var sessions sync.WaitGroup
	for {
		offered, err := secure.Accept()
		if err != nil {
			break
		}
		if offered.Type != "session" {
			offered.Reject(ssh.UnknownChannelType, "only sessions are served")
			continue
		}
		if reason := l.enter(most); reason != "" {
			l.logRefusal("session refused", "reason", reason)
			offered.Reject(ssh.ResourceShortage, reason)
			continue
		}
		sessions.Go(func() {
			defer l.leave()
			l.session(connected, offered)
		})
	}
	cancel()
	sessions.Wait()
}

// enter takes a place for a session, or returns the reason why there is none.
func (l *login) enter(most int) (reason string) {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return "the server is shutting down"
	case l.conn.sessions >= most:
		return "too many sessions"
	case !l.sessions.take():
		return "too many sessions of the user"
	}
	l.conn.sessions++
	return ""
}

// leave gives the place back. During a shutdown it closes a connection without sessions.
func (l *login) leave() {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	l.sessions.give()
	if l.conn.sessions--; l.conn.sessions == 0 && s.draining {
		go l.conn.hangUp()
	}
}
