package sshd

import "sync"

// userMost limits a user's connections, and the sessions of one whose Access does not limit them,
// over all connections. A session may hold 6 MiB: its window, and what it is moving.
const userMost = 100

// users counts the connections of each user who has any.
type users struct {
	mu  sync.Mutex
	all map[string]*usage
}

// usage is what a user has.
type usage struct {
	connections int
	sessions    *SessionLimit
}

// enter takes a place for a connection of a user who may have most, or returns nil if there is
// none.
func (u *users) enter(name string, most int) *usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.all[name]
	if one == nil {
		one = &usage{sessions: NewSessionLimit(userMost)}
		u.all[name] = one
	}
	if one.connections >= most {
		return nil
	}
	one.connections++
	return one
}

// leave gives the place back.
func (u *users) leave(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.all[name]
	if one.connections--; one.connections == 0 {
		delete(u.all, name)
	}
}
