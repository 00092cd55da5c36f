package outside

import (
	"context"
	"sync"
	"time"

	"github.com/usftp/usftp/server/sshd"
)

// mostCached limits the users in the cache. Only users who were let in get there.
const mostCached = 10_000

// cache remembers the last answers about users, with argon2id hashes of their passwords, in memory
// only.
type cache struct {
	age time.Duration
	now func() time.Time

	hashing chan struct{} // each hash takes 64 MiB

	mu  sync.Mutex
	all map[string]cached
}

type cached struct {
	hash   string
	answer Answer
	since  time.Time
}

func newCache(age time.Duration) *cache {
	return &cache{age: age, now: time.Now, all: map[string]cached{},
		hashing: make(chan struct{}, 2)}
}

// keep remembers an answer.
func (c *cache) keep(q Question, answer Answer) {
	if c.age <= 0 {
		return
	}
	c.hashing <- struct{}{}
	one := cached{sshd.HashPassword(q.Password), answer, c.now()}
	<-c.hashing
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.all {
		if _, known := c.all[q.User]; known || len(c.all) < mostCached {
			break
		}
		delete(c.all, name)
	}
	c.all[q.User] = one
}

// forget forgets the answer about a user if the source has now refused the very password that it
// accepted before. Any other password is a guess, and must not cost the user the cached answer.
func (c *cache) forget(q Question) {
	if _, ok := c.find(q); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, q.User)
	}
}

// find returns the last answer, if it was a yes for the same password and is not too old.
func (c *cache) find(q Question) (Answer, bool) {
	c.mu.Lock()
	one, ok := c.all[q.User]
	if ok && c.now().Sub(one.since) > c.age {
		delete(c.all, q.User)
		ok = false
	}
	c.mu.Unlock()
	if !ok {
		return Answer{}, false
	}
	c.hashing <- struct{}{}
	defer func() { <-c.hashing }()
	known, err := sshd.ParsePasswords("", []byte("user:"+one.hash))
	if err != nil || known.Check(context.Background(), "user", q.Password) != nil {
		return Answer{}, false
	}
	return one.answer, true
}
