package sshd

import "sync"

// userMost limits a user's connections, and, unless Access does, the user's sessions over all
// connections. A session may hold 6 MiB: its window, and the data being moved.
const userMost = 100

// users counts the connections of each user with any.
type users struct {
	mu  sync.Mutex
	all map[string]*usage
}

// usage is a user's connections and sessions.
type usage struct {
	connections int
	sessions    *SessionLimit
}

// enter takes a place for a connection of a user, who may have most, or returns nil if none is
// left.
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

// leave returns the place.
func (u *users) leave(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.all[name]
	if one.connections--; one.connections == 0 {
		delete(u.all, name)
	}
}
