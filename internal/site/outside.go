package site

import (
	"cmp"
	"maps"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/sshd"
)

// Outside is like [sshd.Outside], but returns an account that has not been opened yet.
type Outside func(conn ssh.ConnMetadata, known bool, password string) (*Account, error)

// A guest is a user whom Outside has let in: the files they may reach, and when they came.
type guest struct {
	Served
	came time.Time
}

// mostGuests is how many users Outside may have let in before those who left are forgotten: there
// may be any number, and the directories of each are open.
const mostGuests = 5000

// letInFor is how long a guest who is not logged in is remembered: longer than logins may take.
const letInFor = 10 * time.Minute

// outside opens the files of users who are in no list, once they are let in.
func (s *Site) outside(decide Outside) sshd.Outside {
	if decide == nil {
		return nil
	}
	return func(conn ssh.ConnMetadata, known bool, password string) (*sshd.User, error) {
		one, err := decide(conn, known, password)
		if err != nil || known || one == nil {
			return nil, err
		}
		s.forgetGuests()
		s.coming.RLock()
		defer s.coming.RUnlock()
		account := *one
		if err := s.openFor(one, false); err != nil {
			return nil, err
		}
		served := s.servedTo(&account, false)
		s.letting.Lock()
		defer s.letting.Unlock()
		if s.guests == nil {
			s.guests = map[string]guest{}
		}
		s.guests[conn.User()] = guest{served, time.Now()}
		return &one.User, nil
	}
}

// forgetGuests forgets guests who left, if there are too many. Their directories are closed when
// the last session that uses them ends.
func (s *Site) forgetGuests() {
	s.letting.Lock()
	full := len(s.guests) >= cmp.Or(s.mostGuests, mostGuests)
	s.letting.Unlock()
	if !full || !s.coming.TryLock() { // a guest is coming in: another time
		return
	}
	defer s.coming.Unlock()
	stays, used := map[string]bool{}, map[string]bool{} // by users and by roots
	for _, login := range s.Logins() {
		stays[login.User] = true
	}
	use := func(served Served) {
		for _, root := range served.Roots() {
			used[root] = true
		}
	}
	for _, served := range s.Served() {
		use(served)
	}
	var gone []Served
	s.letting.Lock()
	maps.DeleteFunc(s.guests, func(user string, one guest) bool {
		if stays[user] || time.Since(one.came) < letInFor { // may not be logged in yet
			use(one.Served)
			return false
		}
		gone = append(gone, one.Served)
		return true
	})
	s.letting.Unlock()
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, served := range gone {
		for _, root := range served.Roots() {
			if t := s.trees[root]; t != nil && !used[root] {
				if t.quota != nil {
					s.left[root] = t.quota
				}
				delete(s.trees, root)
			}
		}
	}
}

// Guests returns the files that the users whom Outside has let in may reach, unless forgotten.
func (s *Site) Guests() map[string]Served {
	s.letting.Lock()
	defer s.letting.Unlock()
	all := make(map[string]Served, len(s.guests))
	for user, one := range s.guests {
		all[user] = one.Served
	}
	return all
}

// servedOf returns the files that a user may reach, perhaps one from outside.
func (s *Site) servedOf(user string) Served {
	if served, listed := s.Served()[user]; listed {
		return served
	}
	s.letting.Lock()
	defer s.letting.Unlock()
	return s.guests[user].Served
}
