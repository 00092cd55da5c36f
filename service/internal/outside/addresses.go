package outside

import (
	"context"
	"net/netip"
	"sync"

	"github.com/usftp/usftp/server/sshd"
)

// addresses limits the questions of each address at a time, so that a client that guesses passwords
// does not keep everybody else waiting until a ban acts.
type addresses struct {
	each int

	mu  sync.Mutex
	all map[netip.Prefix]*address
}

type address struct {
	places chan struct{}
	users  int // who have a place, or wait for one
}

func newAddresses(each int) *addresses {
	return &addresses{each: each, all: map[netip.Prefix]*address{}}
}

// begin waits for a place of a client's address; end frees it.
func (a *addresses) begin(ctx context.Context, remote string) (end func(), err error) {
	at, _ := netip.ParseAddrPort(remote) // clients without one share one
	network := sshd.Network(at.Addr())
	a.mu.Lock()
	one := a.all[network]
	if one == nil {
		one = &address{places: make(chan struct{}, a.each)}
		a.all[network] = one
	}
	one.users++
	a.mu.Unlock()
	leave := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(a.all, network)
		}
	}
	select {
	case one.places <- struct{}{}:
		return func() { <-one.places; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
