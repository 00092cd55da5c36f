package sshd

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
)

// Outside decides about a password of a user whose User.Outside is set, or who is in no list: known
// tells which. It returns the user in the latter case. Of any other user it is not asked, so that
// nobody else gets to see their passwords.
type Outside func(conn ssh.ConnMetadata, known bool, password string) (*User, error)

// ErrUndecided is wrapped by errors of those who could not find out whether to let somebody in,
// which is not counted as a wrong password.
var ErrUndecided = errors.New("undecided whether to let the user in")

// ask asks about a password of a user who is known, unless e is nil.
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
	if d.limits == nil { // otherwise those remember what is shared
		d.remember(e)
	}
	return e, nil
}

// mostGuests is how many users of outside are remembered, of whom there may be any number.
const mostGuests = 5000

// remember keeps the limits of a user of outside for the user's other logins. If there are too many
// it forgets those who have no sessions.
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

// evenOut waits until a whole second has passed since a moment: how long others need to refuse
// somebody tells whether they know the user.
func evenOut(began time.Time) {
	time.Sleep(time.Second - time.Since(began)%time.Second)
}
