package sshd

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
)

// Outside decides about a password of a user whose User.Outside is set (known is true), or who is
// in no list. It returns the user in the latter case. It is never asked about other users, so that
// nobody else gets to see their passwords.
type Outside func(conn ssh.ConnMetadata, known bool, password string) (*User, error)

// ErrUndecided is wrapped by errors that mean that no decision about a login was possible, which
// does not count as a wrong password.
var ErrUndecided = errors.New("undecided whether to let the user in")

// ask asks outside about the password of a user, who is known unless e is nil.
func (d *Directory) ask(outside Outside, conn ssh.ConnMetadata, e *entry,
	password string) (*entry, error) {
	user, err := outside(conn, e != nil, password)
	switch {
	case err != nil:
		return nil, err
	case e != nil:
		return e, nil
	case user == nil || user.FS == nil && user.Open == nil:
		return nil, errWrongPassword
	}
	if _, err := server.NewView(user.FS, &user.Policy); err != nil {
		return nil, fmt.Errorf("user %s: %w", conn.User(), err)
	}
	user.Name = conn.User()
	if err := user.Admission.check(addressOf(conn.RemoteAddr()), time.Now()); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e = newEntry(*user, d.guests[user.Name], d.limits)
	e.guest = true
	if d.limits == nil { // otherwise those remember the shared state
		d.remember(e)
	}
	return e, nil
}

// mostGuests limits the users of outside that are remembered: there may be any number of them.
const mostGuests = 5000

// remember keeps the limits of a user of outside for the user's other logins. If there are too many
// it forgets users without sessions.
func (d *Directory) remember(e *entry) {
	if d.guests == nil {
		d.guests = map[string]*entry{}
	}
	if len(d.guests) >= mostGuests {
		maps.DeleteFunc(d.guests, func(_ string, e *entry) bool {
			sessions, counted := e.sessions.(*SessionLimit)
			return !counted || sessions.used.Load() == 0
		})
	}
	d.guests[e.Name] = e
}

// evenOut waits until a whole number of seconds has passed since began: otherwise the time that
// outside takes to refuse a login would show whether it knows the user.
func evenOut(began time.Time) {
	time.Sleep(time.Second - time.Since(began)%time.Second)
}
