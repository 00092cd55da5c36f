package server

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// changes lets independent changes of a tree run at once, and makes related ones wait for each
// other, in order of arrival. So a quota's findings about a name still hold when the change is
// made, and no change waits for one elsewhere.
type changes struct {
	mu  sync.Mutex
	all []*pass // under way or waiting, in order of arrival
}

// pass is a change of some names, or also of everything below them.
type pass struct {
	names []string
	below bool
	done  chan struct{}
}

// enter waits until a change may begin; leave ends it.
func (c *changes) enter(ctx context.Context, below bool,
	names ...string) (leave func(), err error) {
	one := &pass{names, below, make(chan struct{})}
	c.mu.Lock()
	var earlier []*pass
	for _, other := range c.all {
		if one.concerns(other) {
			earlier = append(earlier, other)
		}
	}
	c.all = append(c.all, one)
	c.mu.Unlock()
	leave = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.all, one)
		c.all = slices.Delete(c.all, i, i+1)
		close(one.done)
	}
	for _, other := range earlier {
		select {
		case <-other.done:
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

func (c *pass) concerns(other *pass) bool {
	for _, a := range c.names {
		for _, b := range other.names {
			if a == b || c.below && isBelow(b, a) || other.below && isBelow(a, b) {
				return true
			}
		}
	}
	return false
}

func isBelow(name, dir string) bool {
	return strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
