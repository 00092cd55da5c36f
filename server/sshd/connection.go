package sshd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/lograte"
)

// started is what times of the last byte are counted from, so that no jump of the clock changes them.
var started = time.Now()

// connection is an accepted connection.
type connection struct {
	net.Conn
	secure   atomic.Pointer[transport.Conn] // set after the login
	moved    atomic.Int64                   // last byte received or sent, in ns since started
	heard    atomic.Bool                    // a byte has been received
	ended    atomic.Bool                    // by EndLogins
	activity server.Activity
	sessions int    // under the server's lock
	login    *Login // once the client has logged in, under the server's lock
}

// Read and Write record the time of the last byte.

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
		c.moved.Store(int64(time.Since(started)))
	}
	return n, err
}

func (c *connection) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if n > 0 {
		c.moved.Store(int64(time.Since(started)))
	}
	return n, err
}

// lastMoved returns when the last byte was received or sent.
func (c *connection) lastMoved() time.Time { return started.Add(time.Duration(c.moved.Load())) }

// isCheck reports whether the connection is a load balancer's check of this server.
func (c *connection) isCheck() bool {
	checker, ok := c.Conn.(interface{ HealthCheck() bool })
	return ok && checker.HealthCheck()
}

// watchIdle closes the connection when nothing has moved for timeout and no request is running. A
// client that has stopped reading may get twice that time.
func (c *connection) watchIdle(timeout time.Duration, reports *server.Reporter) (stop func()) {
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
		left := timeout - min(time.Since(c.lastMoved()),
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
			reports.Report(server.Event{Kind: server.ConnectionIdle, Took: timeout})
			c.Close()
		}
	}
	c.moved.Store(int64(time.Since(started)))
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
	conn := &connection{Conn: raw}
	if !s.track(func() { s.conns[conn] = struct{}{} }) {
		raw.Close()
		return
	}
	defer s.untrack(func() { delete(s.conns, conn) })
	defer conn.Close()
	defer s.survive(conn)
	state := s.state.Load()
	tried := attempts{reports: s.strangers(&state.Config, raw.RemoteAddr())}
	secure, err := s.login(state, conn, &tried)
	if err != nil {
		failed := server.Event{Kind: server.LoginFailed, User: tried.user,
			Tried: tried.methods, Check: conn.isCheck(), Err: err}
		if tried.refused != nil {
			failed.Kind, failed.Err = server.LoginRefused, tried.refused
		}
		tried.reports.Report(failed)
		return
	}
	l := &login{
		server:   s,
		conn:     conn,
		access:   secure.Permissions().ExtraData[accessKey{}].(*Access),
		patience: state.LoginTimeout,
		client:   string(secure.ClientVersion()),
	}
	l.Events = about(state.Events, raw.RemoteAddr(), secure.User())
	l.Gate = gateFor(state.Gate, raw.RemoteAddr(), secure.User())
	l.Hashes = state.Hashes
	l.Logger = lograte.ByByte(state.Logger.With("remote", raw.RemoteAddr().String(), "user",
		secure.User()), s.bytes.Of(secure.User()))
	by := secure.Permissions().ExtraData[provedKey{}].(proof)
	// Before open, which may take long, and does not see that the client goes.
	usage := s.users.enter(secure.User(), l.access.mostConnections())
	if usage == nil {
		l.Report(server.Event{Kind: server.SessionRefused, Err: errConnections})
		secure.Disconnect(transport.ReasonTooManyConnections, errConnections.Error())
		return
	}
	defer s.users.leave(secure.User())
	l.files = usage.files
	if l.sessions = l.access.Sessions; l.sessions == nil {
		l.sessions = usage.sessions
	}
	// Before open asks whether the user may log in: EndLogins then finds whoever may no longer.
	s.loggedIn(conn, Login{User: secure.User(), Remote: raw.RemoteAddr().String(),
		Client: l.client, Method: by.method, Key: by.key, Since: time.Now(),
		gone: l.access.gone})
	if err := l.open(); err != nil {
		l.Report(server.Event{Kind: server.LoginRefused, Err: err})
		secure.Disconnect(transport.ReasonByApplication, told(err))
		return
	}
	l.Report(server.Event{Kind: server.LoggedIn, Client: l.client, Method: by.method, Key: by.key})
	stop := conn.watchIdle(state.IdleTimeout, &l.Reporter)
	defer stop()
	l.policy.User = secure.User()
	l.serve(secure, state.MaxSessions)
	l.Report(server.Event{Kind: server.ConnectionClosed})
}

// survive, which is deferred, confines a panic to its connection.
func (s *Server) survive(conn *connection) {
	value := recover()
	if value == nil {
		return
	}
	defer conn.Close()
	if ok, omitted := s.panics.Take(); ok {
		s.state.Load().whole.Error("panic", "remote", conn.RemoteAddr().String(),
			"value", fmt.Sprint(value), "stack", string(debug.Stack()), "omitted", omitted)
	}
}

var errNoFiles = errors.New("your files cannot be served now; tell the server's operators")

// told returns what the client learns of an error of open or admit.
func told(err error) string {
	if errors.Is(err, ErrNotAdmitted) || errors.Is(err, errNoUser) {
		return ErrNotAdmitted.Error()
	}
	return errNoFiles.Error()
}

// open checks whether the user may still log in, and gets the user's files. Only now is the client
// known to be the user, for whom a directory may be made.
func (l *login) open() (err error) {
	if err := l.admit(); err != nil {
		return err
	}
	if l.fs, l.policy = l.access.FS, l.access.Policy; l.fs == nil {
		l.fs, l.policy, err = l.access.Open()
	}
	if err == nil && l.fs == nil {
		err = errNoAccess
	}
	return err
}

// admit returns an error if the user may not log in any more.
func (l *login) admit() error {
	if l.access.Admit == nil {
		return nil
	}
	return l.access.Admit()
}

// login authenticates the client.
func (s *Server) login(state *state, conn *connection,
	tried *attempts) (secure *transport.Conn, err error) {
	address := addressOf(conn.RemoteAddr())
	if !state.Exempt(address) {
		place, reason := s.guard.begin(address, state.loginLimits(address), func() { conn.Close() })
		if reason != "" {
			return nil, notServed(reason)
		}
		defer func() {
			switch dropped := s.guard.end(place); {
			case err == nil && secure == nil: // a panic, which is not the client's fault
			case err == nil:
				s.guard.loggedIn(address)
			case dropped:
				err = errDropped
			default:
				s.blame(&state.Config, conn.RemoteAddr(), heldAgainst(tried.user),
					tried.weight(conn, err))
			}
		}()
	}
	if secure, err = transport.Server(conn, tried.noting(state.ssh)); err == nil {
		conn.secure.Store(secure)
	}
	return secure, err
}

// hangUp closes the connection once the bytes written are on their way, which may take a second.
func (c *connection) hangUp() {
	if secure := c.secure.Load(); secure != nil {
		secure.Close()
	}
	c.Close()
}

// errDropped reports that a connection lost its place to another one.
var errDropped = notServed("too slow while too many others were logging in")

// notServed is the reason why a connection was turned away before the handshake.
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
		if err := l.enter(most); err != nil {
			l.refuse(offered, err)
			continue
		}
		sessions.Go(func() {
			defer l.leave()
			defer l.server.survive(l.conn)
			if err := l.admit(); err != nil {
				l.Report(server.Event{Kind: server.SessionRefused, Err: err})
				offered.Reject(ssh.Prohibited, told(err))
				return
			}
			end, err := l.sessions.Begin(connected) // which may have to ask other servers
			if err != nil {
				l.refuse(offered, err)
				return
			}
			defer end()
			l.session(connected, offered)
		})
	}
	cancel()
	sessions.Wait()
}

// refuse rejects a channel.
func (l *login) refuse(offered *transport.NewChannel, reason error) {
	l.Report(server.Event{Kind: server.SessionRefused, Err: reason})
	offered.Reject(ssh.ResourceShortage, reason.Error())
}

var (
	errDraining    = errors.New("the server is shutting down")
	errMaxSessions = errors.New("too many sessions")
	errConnections = errors.New("too many connections of the user")
)

// enter takes a place for a session on the connection.
func (l *login) enter(most int) error {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return errDraining
	case l.conn.sessions >= most:
		return errMaxSessions
	}
	l.conn.sessions++
	return nil
}

// leave gives the place back. During a shutdown it closes a connection without sessions.
func (l *login) leave() {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.conn.sessions--; l.conn.sessions == 0 && s.draining {
		go l.conn.hangUp()
	}
}
