package transfer

import (
	"slices"

	"github.com/usftp/usftp"
)

// mostDied is how many clients of a pool are replaced whose connection was lost, for each that
// there may be: one that takes connections and ends them at once is not to be logged in to for
// ever.
const mostDied = 2

// watch waits for the end of a client. Another takes its place, as far as that was wanted, and
// whoever uses others does not notice.
func (p *Pool) watch(client pooledClient) {
	select {
	case <-client.Done():
	case <-p.ctx.Done():
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.clients, client)
	if p.closed || at < 0 { // it was given back
		return
	}
	p.config.Logger.Info("a connection of several was lost: " + client.Wait().Error())
	p.clients = slices.Delete(p.clients, at, at+1)
	p.work.Go(func() { client.Close() })
	client.on.full = true // most likely all of the connection is lost
	p.leave(client.on)
	p.open()
}

// leave counts a stream of a connection that has ended, or was refused, and gives the connection up
// when it was the last. The first stays: it is not the pool's. The caller holds the lock.
func (p *Pool) leave(c *pooled) {
	if p.died++; p.died > mostDied*p.config.Connections*p.config.Streams {
		p.refused = true
	}
	at := slices.Index(p.conns, c)
	if c.streams--; c.streams > 0 || at <= 0 {
		return
	}
	p.conns = slices.Delete(p.conns, at, at+1)
	p.work.Go(func() { c.conn.Close() })
}

// survivor returns a client of the pool that lives, to take the place of the first, whose
// connection was lost; nil where there is none. It is then no longer among the others.
func (p *Pool) survivor() *usftp.Client {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.first != nil && !lost(p.first) {
		return p.first
	}
	for _, c := range p.clients {
		if !lost(c.Client) {
			p.first = c.Client
			c.on.users++ // for good: it is not given back
			return p.first
		}
	}
	return nil
}
