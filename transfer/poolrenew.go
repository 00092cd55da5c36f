package transfer

import "github.com/usftp/usftp"

// survivor returns a client of the pool that lives, to take the place of the first, whose connection was lost; nil where there is none. It is
// then no longer among the others.
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
