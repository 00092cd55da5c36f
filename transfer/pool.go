package transfer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp"
)

// Pool holds further connections to one host, and further SFTP sessions on them. They are opened
// when somebody needs them, while data already flows over the first, and stay for whoever comes
// next unless they turn out to add nothing. Its methods may be called from any number of
// goroutines.
type Pool struct {
	config PoolConfig
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	conns   []*pooled
	clients []pooledClient // besides the first
	lent    int            // files of trees that the first has
	// of clients: the one that has taken the place of the first, which was lost
	first *usftp.Client
	// connections, the first too, that somebody asked for; 0 before anybody did
	wanted  int
	opening int  // further connections
	leading int  // 1 while the first one logs in, and others beside it
	died    int  // clients whose connection was lost
	refused bool // the host lets us have no more
	closed  bool
	changed chan struct{} // closed and made anew when a client was added, or none will be
}

type pooled struct {
	conn    Connection
	streams int
	full    bool // no further stream is allowed
	users   int  // files under way that have one of its sessions take part
}

type pooledClient struct {
	*usftp.Client
	on   *pooled
	lent *int // files of trees that it has
}

// Connection is a connection to a host on which SFTP sessions can be opened, as package dial's are.
type Connection interface {
	Open(context.Context) (*usftp.Client, error)
	Close() error
}

// PoolConfig says where connections come from.
type PoolConfig struct {
	// First is the connection that there is, whose first session the pool does not know, and
	// Connect makes another. Where First is still to come its Open waits for it.
	First   Connection
	Connect func(context.Context) (Connection, error)

	// Connections and Streams bound how many connections there are, and how many SFTP sessions on
	// each. 0 means 8 and 2. Where each login needs a person, one connection should do.
	Connections, Streams int

	// Logger is told of what is opened and refused. Nil is silence.
	Logger *slog.Logger
}

const (
	defaultConnections = 8
	defaultStreams     = 2

	// mostLogins is how many connections log in at a time: sshd begins to refuse at 10, from all
	// users (MaxStartups).
	mostLogins = 4
)

// NewPool returns a pool that has nothing open yet besides the first connection, which stays its
// owner's.
func NewPool(config PoolConfig) *Pool {
	if config.Connections <= 0 {
		config.Connections = defaultConnections
	}
	if config.Streams <= 0 {
		config.Streams = defaultStreams
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{config: config, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.conns = []*pooled{{conn: config.First, streams: 1}}
	return p
}

// loginGrace is what logins under way get to come to their end: sshd counts connections that leave
// without one against their address (PerSourcePenalties).
const loginGrace = 2 * time.Second

// Close ends all that the pool has opened, and lets logins under way end first. It does not touch
// the first connection.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	clients, conns := p.clients, p.conns[1:]
	p.clients, p.conns = nil, nil
	p.tell()
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
	for _, c := range clients {
		p.work.Go(func() { c.Close() })
	}
	for _, c := range conns {
		p.work.Go(func() { c.conn.Close() })
	}
	p.work.Wait()
	return nil
}

// Expect has connections opened ahead for a file of so many bytes, where that is worth it over a
// way whose round trip is so long: they log in while the first connection still does.
func (p *Pool) Expect(size int64, trip time.Duration) {
	if p.most() > 1 && trip > stripeAtOnce && worthStriping(size, trip) {
		p.awaitFirst()
		p.want(firstWanted(size, trip))
	}
}

// awaitFirst counts the first connection among those that log in, as long as it does.
func (p *Pool) awaitFirst() {
	first, ok := p.config.First.(*coming)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok || p.closed {
		return
	}
	p.leading = 1
	p.work.Go(func() {
		select {
		case <-first.ready:
		case <-p.ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leading = 0
		p.open()
	})
}

// most returns how many sessions there can be, the first too.
func (p *Pool) most() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Connections * p.config.Streams
}

// perConnection returns how many sessions there may be on a connection, as far as the host has
// shown what it takes.
func (p *Pool) perConnection() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.config.Streams
}

// want has connections opened until there are n, the first counted in, and on each as many sessions
// as are allowed. It does not wait.
func (p *Pool) want(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = max(p.wanted, min(n, p.config.Connections))
	p.open()
}

// open starts what is wanted. The caller holds the lock.
func (p *Pool) open() {
	if p.closed || p.wanted == 0 {
		return
	}
	for _, c := range p.conns {
		for c.streams < p.config.Streams && !c.full { // at once: each is three round trips
			c.streams++
			p.work.Go(func() { p.openStream(c) })
		}
	}
	for !p.refused && p.opening+p.leading < mostLogins && len(p.conns)+p.opening < p.wanted {
		p.opening++
		p.work.Go(p.openConn)
	}
}

func (p *Pool) openStream(c *pooled) {
	client, err := c.conn.Open(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		c.full = true
		if p.ctx.Err() == nil {
			p.config.Logger.Info("no further channel: " + err.Error())
			// it was refused: what one connection is not given, others are not either
			if c.streams > 1 && !errors.Is(err, net.ErrClosed) {
				p.config.Streams = max(1, min(p.config.Streams, c.streams-1))
			}
		}
		p.leave(c)
		return
	}
	p.add(pooledClient{client, c, new(int)})
}

func (p *Pool) openConn() {
	conn, err := p.config.Connect(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening--
	defer p.tell()
	switch {
	case err != nil:
		if !p.refused && p.ctx.Err() == nil {
			p.config.Logger.Info("no further connection: " + err.Error())
		}
		p.refused = true // what is refused once is not asked for again
	case p.closed:
		p.work.Go(func() { conn.Close() })
	default:
		p.conns = append(p.conns, &pooled{conn: conn})
		p.config.Logger.Info("another connection", "connections", len(p.conns))
		p.open()
	}
}

// add takes a client in. The caller holds the lock.
func (p *Pool) add(client pooledClient) {
	if p.closed || client.on.streams == 0 { // its connection was given back meanwhile
		p.work.Go(func() { client.Close() })
		return
	}
	p.clients = append(p.clients, client)
	p.work.Go(func() { p.watch(client) })
	p.tell()
}

// use counts a file in that one of a connection's sessions takes part in, or with -1 out.
func (p *Pool) use(c *pooled, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.users += n
}

// giveBack closes connections that have turned out to add nothing, where nobody else uses them, and
// remembers that as many do.
func (p *Pool) giveBack(useless []*pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range useless {
		if at := slices.Index(p.conns, c); at > 0 && c.users == 0 && !p.closed {
			p.conns = slices.Delete(p.conns, at, at+1)
			c.streams, c.full = 0, true
			p.clients = slices.DeleteFunc(p.clients, func(client pooledClient) bool {
				if client.on == c {
					p.work.Go(func() { client.Close() })
				}
				return client.on == c
			})
			p.work.Go(func() { c.conn.Close() })
		}
	}
	p.config.Connections = len(p.conns)
	p.wanted = min(p.wanted, p.config.Connections)
	p.config.Logger.Info("connections that add nothing were given back", "connections",
		len(p.conns))
}

func (p *Pool) isFirst(c *pooled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) > 0 && p.conns[0] == c
}

// settled tells whether nothing is being opened, and how many connections there can be at most.
func (p *Pool) settled() (settled bool, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opening == 0 && (p.refused || len(p.conns) >= p.wanted), p.config.Connections
}

// tell wakes those who wait for a change. The caller holds the lock.
func (p *Pool) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// others returns the clients that there are besides the first, but not those that have died, and a
// channel that is closed when there are others.
func (p *Pool) others() (clients []pooledClient, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		if c.Client != p.first && !lost(c.Client) {
			clients = append(clients, c)
		}
	}
	return clients, p.changed
}
