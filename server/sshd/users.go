package sshd

import (
	"sync"

	"github.com/usftp/usftp/server"
)

// userMost limits a user's connections, and, unless Access does, the user's sessions over all
// connections. A session may hold 6 MiB: its window, and the data being moved.
const userMost = 100

// handlesEach is how many files and directories a user may have open on average in each session.
const handlesEach = 40

// mostOpen limits the files and directories that a user with so many sessions may have open in all
// of them: no user may take most of the descriptors that this process can have, of which an upload
// needs two and a connection needs one.
func mostOpen(sessions int) int { return max(min(sessions*handlesEach, descriptors()/8), 64) }

// users counts the connections of each user with any.
type users struct {
	mu  sync.Mutex
	all map[string]*usage
}

// usage is a user's connections and sessions.
type usage struct {
	connections int
	sessions    *SessionLimit
	files       *server.OpenFiles
}

// enter takes a place for a connection of a user, who may have most, or returns nil if none is
// left.
func (u *users) enter(name string, most int) *usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.all[name]
	if one == nil {
		one = &usage{sessions: NewSessionLimit(userMost), files: &server.OpenFiles{}}
		u.all[name] = one
	}
	one.files.SetMost(mostOpen(most)) // which the configuration may have changed
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
