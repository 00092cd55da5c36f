// Package pool manages the connections to one host: it logs in, opens further connections and
// sessions while a large copy benefits from them, closes connections that add nothing, and replaces
// connections that are lost.
//
// [Connect] logs in to a host. A [Pool] spreads work over several sessions. A [Conn] is a
// connection that is replaced when it is lost.
package pool

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/flow"
	"github.com/usftp/usftp/internal/private/pools"
)

// A Pool holds further connections to one host and further SFTP sessions on them. They are opened
// on demand, while data already flows over the first, and stay open for later copies unless they
// prove to add nothing. It is safe for concurrent use. A nil Pool has only the first session.
type Pool struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu        sync.Mutex
	links     []*link    // links[0] belongs to the caller
	sessions  []*session // besides the first
	first     *session   // stands for the first session; client is set once that was lost
	wanted    int        // connections, including the first; 0 before the first Want
	each      int        // sessions wanted on each connection
	opening   int        // further connections logging in
	loggingIn int        // 1 while the first connection is still logging in
	died      int        // sessions whose connection was lost
	closed    bool
	changed   chan struct{} // closed and replaced when a session is added or will not be
}

func init() {
	pools.OfConn = func(c any) pools.Conn { return privateConn{c.(*Conn)} }
	pools.OfPool = func(p any) pools.Pool { return privatePool{p.(*Pool)} }
	pools.OfHost = func(h any) pools.Host { return privateHost{h.(*Host)} }
}

// privatePool has the methods for package transfer; package pools documents them.
type privatePool struct{ *Pool }

// link is one connection.
type link struct {
	conn     Connection
	sessions int
	full     bool // the host refuses further sessions
	users    int  // files in progress on its sessions
}

// session is an SFTP session of a Pool.
type session struct {
	client *usftp.Client
	link   *link
	lent   int // the number of callers of Acquire that hold it
}

// Client implements pools.Session.
func (s *session) Client() *usftp.Client { return s.client }

// Shares implements pools.Session.
func (s *session) Shares(other pools.Session) bool { return s.link == other.(*session).link }

// A Connection is a connection to a host. Open starts another SFTP session on it.
type Connection interface {
	Open(context.Context) (*usftp.Client, error)
	Close() error
}

// Config is the source of a Pool's connections, and their limits.
type Config struct {
	// First is the existing connection, whose first session belongs to the caller. If it is still
	// logging in, its Open must wait for that. Connect makes further connections; nil makes none.
	First   Connection
	Connect func(context.Context) (Connection, error)

	// Connections and Streams limit the connections, including the first, and the SFTP sessions on
	// each. 0 means 8 and 2. If every login needs a person, use one connection.
	Connections, Streams int

	// Logger records connections and sessions opened and refused. Nil discards it.
	Logger *slog.Logger
}

const (
	defaultConnections = 8
	defaultStreams     = 2

	// mostLogins limits how many connections log in at a time: sshd starts refusing at 10 across
	// all users (MaxStartups).
	mostLogins = 4

	// mostDied limits how many lost sessions are replaced, per allowed session: a host that accepts
	// connections and ends them at once must not be dialed forever.
	mostDied = 2
)

// New returns a pool with nothing open but the first connection, which its owner closes.
func New(config Config) *Pool {
	switch {
	case config.Connect == nil:
		config.Connections = 1
	case config.Connections <= 0:
		config.Connections = defaultConnections
	}
	if config.Streams <= 0 {
		config.Streams = defaultStreams
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	p := &Pool{config: config, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.links = []*link{{conn: config.First, sessions: 1}}
	p.first = &session{link: p.links[0]}
	return p
}

// loginGrace is how long Close lets logins finish: sshd counts connections that leave before login
// against their address (PerSourcePenalties).
const loginGrace = 2 * time.Second

// Close ends everything that the pool opened, after giving logins in progress a moment to finish.
// It leaves the first connection alone.
func (p *Pool) Close() error {
	if p == nil {
		return nil
	}
	p.hangUp()
	p.mu.Lock()
	if p.links == nil {
		p.mu.Unlock()
		return nil
	}
	links := p.links[1:]
	p.links = nil
	timer := time.NewTimer(loginGrace)
	defer timer.Stop()
	for late := false; p.opening > 0 && !late; {
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			late = true
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	p.cancel()
	for _, l := range links {
		p.work.Go(func() { l.conn.Close() })
	}
	p.work.Wait()
	return nil
}

// hangUp begins Close: it ends the sessions, and returns when each has recorded who ended it. A
// session whose connection is closed first would report it lost.
func (p *Pool) hangUp() {
	p.mu.Lock()
	sessions := p.sessions
	p.closed, p.sessions = true, nil
	p.wake()
	p.mu.Unlock()
	for _, s := range sessions {
		p.work.Go(func() { s.client.Close() })
	}
	for _, s := range sessions {
		<-s.client.Done()
	}
}

// Expect implements pools.Pool.
func (p privatePool) Expect(size int64, trip time.Duration) {
	if p.Size() > 1 && trip > flow.StripeAtOnce && flow.WorthStriping(size, trip) {
		p.awaitFirst()
		p.Want(flow.FirstConnections(size, trip), 0)
	}
}

// awaitFirst counts the first connection as logging in until it is made.
func (p *Pool) awaitFirst() {
	first, ok := p.config.First.(*pending)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok || p.closed {
		return
	}
	p.loggingIn = 1
	p.work.Go(func() {
		select {
		case <-first.ready:
		case <-p.ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.loggingIn = 0
		p.open()
	})
}

// Size implements pools.Pool.
func (p privatePool) Size() int {
	if p.Pool == nil {
		return 1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Connections * p.config.Streams
}

// streams returns how many sessions a connection may have, lowered by the host's refusals.
func (p *Pool) streams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Streams
}

// Want asks for this many connections, including the first, with this many sessions on each. 0
// sessions means as many as allowed. It does not wait.
func (p *Pool) Want(connections, sessions int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = max(p.wanted, min(connections, p.config.Connections))
	p.each = max(p.each, cmp.Or(sessions, p.config.Streams))
	p.open()
}

// open starts all that is wanted and missing. The caller holds the lock.
func (p *Pool) open() {
	if p.closed || p.wanted == 0 {
		return
	}
	for _, l := range p.links {
		// all at once: each takes three round trips
		for l.sessions < min(p.each, p.config.Streams) && !l.full {
			l.sessions++
			p.work.Go(func() { p.openSession(l) })
		}
	}
	for p.opening+p.loggingIn < mostLogins && len(p.links)+p.opening < p.wanted {
		p.opening++
		p.work.Go(p.openLink)
	}
}

func (p *Pool) openSession(l *link) {
	client, err := l.conn.Open(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		l.full = true
		if p.ctx.Err() == nil {
			p.config.Logger.Info("cannot open another channel: " + err.Error())
			// the other connections will be refused the same
			if l.sessions > 1 && !errors.Is(err, net.ErrClosed) {
				p.config.Streams = max(1, min(p.config.Streams, l.sessions-1))
			}
		}
		p.leave(l)
	case p.closed || l.sessions == 0: // its connection was closed while this was opening
		p.work.Go(func() { client.Close() })
	default:
		s := &session{client: client, link: l}
		p.sessions = append(p.sessions, s)
		p.work.Go(func() { p.watch(s) })
		p.wake()
	}
}

func (p *Pool) openLink() {
	conn, err := p.config.Connect(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening--
	defer p.wake()
	switch {
	case err != nil:
		if p.wanted > len(p.links) && p.ctx.Err() == nil {
			p.config.Logger.Info("cannot open another connection: " + err.Error())
		}
		p.limit(max(1, len(p.links))) // do not ask again after one refusal
	case p.closed:
		p.work.Go(func() { conn.Close() })
	default:
		p.links = append(p.links, &link{conn: conn})
		p.config.Connections = max(p.config.Connections, len(p.links))
		p.config.Logger.Info("another connection", "connections", len(p.links))
		p.open()
	}
}

// limit sets the maximum number of connections. The caller holds the lock.
func (p *Pool) limit(connections int) {
	p.config.Connections = connections
	p.wanted = min(p.wanted, connections)
}

// watch replaces a session that ends, if it is still wanted. Users of other sessions notice
// nothing.
func (p *Pool) watch(s *session) {
	select {
	case <-s.client.Done():
	case <-p.ctx.Done():
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.sessions, s)
	if p.closed || at < 0 { // it was closed on purpose
		return
	}
	p.config.Logger.Info("lost one of several connections: " + s.client.Wait().Error())
	p.sessions = slices.Delete(p.sessions, at, at+1)
	p.work.Go(func() { s.client.Close() })
	s.link.full = true // most likely the whole connection is lost
	p.leave(s.link)
	p.open()
}

// leave counts a session that ended or was refused, and closes the connection with its last one.
// The first connection is not the pool's to close. The caller holds the lock.
func (p *Pool) leave(l *link) {
	if p.died++; p.died > mostDied*p.config.Connections*p.config.Streams {
		p.limit(max(1, len(p.links)-1))
	}
	at := slices.Index(p.links, l)
	if l.sessions--; l.sessions > 0 || at <= 0 {
		return
	}
	p.links = slices.Delete(p.links, at, at+1)
	p.work.Go(func() { l.conn.Close() })
}

// survivor returns a live session to replace the first, whose connection was lost, or nil if there
// is none. From then on it is the first session.
func (p *Pool) survivor() *usftp.Client {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.first.client != nil && !Lost(p.first.client) {
		return p.first.client
	}
	for _, s := range p.sessions {
		if !Lost(s.client) {
			p.first = &session{client: s.client, link: s.link}
			s.link.users++ // it stays open for good
			return s.client
		}
	}
	return nil
}

// Drop implements pools.Pool.
func (p privatePool) Drop(useless []pools.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range useless {
		l := s.(*session).link
		at := slices.Index(p.links, l)
		if at <= 0 || l.users > 0 || p.closed {
			continue
		}
		p.links = slices.Delete(p.links, at, at+1)
		l.sessions, l.full = 0, true
		p.sessions = slices.DeleteFunc(p.sessions, func(s *session) bool {
			if s.link == l {
				p.work.Go(func() { s.client.Close() })
			}
			return s.link == l
		})
		p.work.Go(func() { l.conn.Close() })
	}
	p.limit(len(p.links))
	p.config.Logger.Info("closed connections that added nothing", "connections", len(p.links))
}

// Stable implements pools.Pool.
func (p privatePool) Stable() (stable bool, have, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opening == 0 && len(p.links) >= p.wanted, len(p.links), p.config.Connections
}

// wake wakes everyone who waits for a change. The caller holds the lock.
func (p *Pool) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Sessions implements pools.Pool.
func (p privatePool) Sessions() (sessions []pools.Session, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sessions {
		if s.client != p.first.client && !Lost(s.client) {
			sessions = append(sessions, s)
		}
	}
	return sessions, p.changed
}

// Use implements pools.Pool.
func (p privatePool) Use(on pools.Session) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := on.(*session).link
	l.users++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		l.users--
	}
}

// IsFirst implements pools.Pool.
func (p privatePool) IsFirst(on pools.Session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links) > 0 && p.links[0] == on.(*session).link
}

// Acquire returns the session with the fewest holders, nil for the first one, and keeps its
// connection open until release is called.
func (p *Pool) Acquire() (client *usftp.Client, release func()) {
	if p == nil {
		return nil, func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	least := p.first
	for _, s := range p.sessions {
		if s.client != p.first.client && !Lost(s.client) && s.lent < least.lent {
			least = s
		}
	}
	if least != p.first {
		client = least.client
	}
	least.lent++
	least.link.users++
	return client, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		least.lent--
		least.link.users--
	}
}
