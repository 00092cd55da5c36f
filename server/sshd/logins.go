package sshd

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// A Login is a connection that has logged in. Strings are as the client sent them.
type Login struct {
	ID       uint64 // unique within this server
	User     string
	Remote   string // the client's address, with its port
	Client   string // its SSH version line
	Method   string // of successful authentication
	Key      string // the fingerprint of the successful key, if any
	Since    time.Time
	Sessions int  // its present number
	Gone     bool // as [Admission] has it: the user has been disabled or removed since

	gone func() bool
}

func (s *Server) loggedIn(conn *connection, login Login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins++
	login.ID = s.logins
	conn.login = &login
}

// now returns the login as it is now. The caller holds the server's lock.
func (c *connection) now() Login {
	now := *c.login
	now.Sessions, now.Gone = c.sessions, now.gone != nil && now.gone()
	return now
}

// Logins returns the connections that have logged in, the oldest first.
func (s *Server) Logins() (all []Login) {
	s.mu.Lock()
	for conn := range s.conns {
		if conn.login != nil {
			all = append(all, conn.now())
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b Login) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// EndLogins closes the logged-in connections for which end returns true, and returns their number.
// Their sessions end as if the clients had gone.
func (s *Server) EndLogins(end func(Login) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		if conn.login != nil && end(conn.now()) {
			conn.ended.Store(true)
			go conn.Close()
			n++
		}
	}
	return n
}

var errEnded = errors.New("the connection was ended here")

// causeOf returns the cause of a session's failure, in place of its symptom err.
func (l *login) causeOf(err error) error {
	if l.conn.ended.Load() {
		return errEnded
	}
	return err
}
