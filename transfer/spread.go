package transfer

import (
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp"
)

// spread shares the large files of a tree out among the sessions of a pool: each travels over one
// of them, as long as there are many, and the last ones over several.
type spread struct {
	bytes  atomic.Int64 // of files that were found and are not copied yet
	files  atomic.Int64
	hiring [2]sync.Once // for each pool
	ended  sync.Once
	none   chan struct{} // closed when no large file waits any more, nor will
}

// fewFiles is how many large files are left when each may travel over several sessions.
const fewFiles = 4

// perSession is how many large files are under way on each session, so that it is never idle while
// one of them is opened or closed.
const perSession = 2

// share counts a large file, and has connections opened where all that were found are worth it.
func (p *plan) share(size int64) {
	t := p.tree
	p.spread.files.Add(1)
	bytes := p.spread.bytes.Add(max(0, size))
	if t.limiter != nil || !worthStriping(bytes, t.trip) {
		return
	}
	for i, pool := range t.pools() {
		if pool == nil || pool.most() < 2 {
			continue
		}
		pool.want(firstWanted(bytes, t.trip))
		p.spread.hiring[i].Do(func() { p.working.Go(func() { p.hire(pool) }) })
	}
}

// pools are the pools of the host, and of the source's where that is another.
func (t *treeRun) pools() (pools [2]*Pool) {
	pools[0] = t.line.current().Pool
	if t.from != nil && t.from != t.line {
		pools[1] = t.from.current().Pool
	}
	return pools
}

// hire begins workers for each session that comes. Sooner they would only crowd the first one.
func (p *plan) hire(pool *Pool) {
	for workers := 0; ; {
		clients, changed := pool.others()
		for ; workers < perSession*len(clients); workers++ {
			p.working.Go(p.workLarge)
		}
		select {
		case <-changed:
		case <-p.spread.none:
			return
		case <-p.tree.ctx.Done():
			return
		}
	}
}

// workLarge copies large files until none waits and the walk is over.
func (p *plan) workLarge() {
	for i := range p.large {
		if p.tree.ctx.Err() == nil {
			p.tree.copy(i)
		}
		p.spread.bytes.Add(-max(0, i.facts.size))
		p.spread.files.Add(-1)
		i.dir.done()
	}
	p.spread.ended.Do(func() { close(p.spread.none) })
}

// spreads tells whether a file travels over one session because others of its tree take the rest.
func (r *run) spreads() bool {
	return r.item != nil && r.item.dir.tree.plan.spread.files.Load() > fewFiles
}

// lend gives a large file of a tree the session that has the fewest, and one of the source's host
// where that is another.
func (r *run) lend() (giveBack func()) {
	if r.item == nil || r.item.dir.tree.isSmall(r.item.facts.size) || !r.spreads() {
		return func() {}
	}
	atHost := r.lendOf(&r.Host)
	if r.from == nil || r.from == r.line {
		return atHost
	}
	atSource := r.lendOf(&r.From)
	return func() { atSource(); atHost() }
}

func (r *run) lendOf(host *Host) (giveBack func()) {
	if host.Pool == nil {
		return func() {}
	}
	client, giveBack := host.Pool.lend()
	if client != nil {
		host.Client = client.WithContext(r.ctx)
	}
	return giveBack
}

// lend returns the session that the fewest have been lent, nil for the first.
func (p *Pool) lend() (client *usftp.Client, giveBack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := &p.lent // of the first
	var on *pooled
	for _, c := range p.clients {
		if c.Client != p.first && !lost(c.Client) && *c.lent < *least {
			client, on, least = c.Client, c.on, c.lent
		}
	}
	*least++
	if on != nil {
		on.users++
	}
	return client, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		*least--
		if on != nil {
			on.users--
		}
	}
}
