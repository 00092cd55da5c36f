package sshd

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// TestServersShareBans: whoever was banned by one server is kept out by another that shares its
// list, and nobody evades a ban by changing servers.
func TestServersShareBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Bans = NewBanList()
		one, two := newServer(t, config), newServer(t, config)
		for i := range usual.UserFailures + 3 {
			s := one
			if i%2 == 1 {
				s = two
			}
			if _, err := connect(s, ssh.Password("wrong")); err == nil {
				t.Fatal("a wrong password was taken")
			}
		}
		for _, s := range []*Server{one, two} {
			if _, err := connect(s, ssh.Password("secret")); err == nil {
				t.Error("a banned address got in")
			}
		}
		time.Sleep(2 * usual.First)
		mustConnect(t, two)
	})
}

// TestServersShareSessions: a user's sessions count on all servers together, and a place that is
// given back on one is there for another.
func TestServersShareSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0), Sessions: NewSessionLimit(1)})
		one, two := mustConnect(t, newServer(t, config)), mustConnect(t, newServer(t, config))
		if _, err := one.NewSession(); err != nil {
			t.Fatal(err)
		}
		if _, err := two.NewSession(); err == nil {
			t.Error("a second session was opened, on the other server")
		}
		one.Close()
		synctest.Wait()
		if _, err := two.NewSession(); err != nil {
			t.Errorf("after the first has ended: %v", err)
		}
	})
}

// deaf is a Sessions whose store does not answer.
type deaf struct{}

func (deaf) Begin(ctx context.Context) (func(), error) {
	<-ctx.Done()
	return nil, errors.New("nobody answers")
}

func (deaf) Most() int { return 1 }

// TestSessionsThatDoNotAnswer: a store that does not answer holds up only the session that waits
// for it, and not beyond the end of its connection.
func TestSessionsThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book eventBook
		config := onlyPassword(&Access{FS: memfs.New(0), Sessions: deaf{}})
		config.Events = book.note
		client := mustConnect(t, newServer(t, config))
		opened := make(chan error, 1)
		go func() {
			_, err := client.NewSession()
			opened <- err
		}()
		synctest.Wait()
		// The connection is served all the same.
		if _, _, err := client.OpenChannel("x11", nil); err == nil {
			t.Error("x11 is served")
		}
		client.Close()
		if err := <-opened; err == nil {
			t.Error("a session was opened")
		}
		synctest.Wait()
		if n := len(book.of(server.ConnectionClosed)); n != 1 {
			t.Errorf("the connection has been closed %d times", n)
		}
	})
}

// places makes limits of sessions that several directories share, and counts who asked.
type places map[string]Sessions

func (p places) Bandwidth(string, Rates) Bandwidth { return NewRateLimit(EachWay(1 << 30)) }

func (p places) Sessions(user string, most int) Sessions {
	if p[user] == nil {
		p[user] = NewSessionLimit(most)
	}
	return p[user]
}

// TestDirectoriesShareLimits: the users of two servers have their limits together, also those who
// have only the usual ones.
func TestDirectoriesShareLimits(t *testing.T) {
	shared := places{}
	accounts := Accounts{Limits: shared, Users: []User{
		{Name: "few", FS: memfs.New(0), MaxSessions: 2, Bandwidth: EachWay(1)},
		{Name: "usual", FS: memfs.New(0)},
	}}
	var entries [2]map[string]*entry
	for i := range entries {
		d, err := NewDirectory(accounts)
		if err == nil {
			err = d.Set(accounts)
		}
		if err != nil {
			t.Fatal(err)
		}
		entries[i] = d.users
	}
	for name, most := range map[string]int{"few": 2, "usual": userMost} {
		one, two := entries[0][name].access(), entries[1][name].access()
		if one.Sessions != two.Sessions || one.Sessions != shared[name] ||
			one.Sessions.Most() != most || (one.Bandwidth != nil) != (name == "few") {
			t.Errorf("%s: %+v and %+v", name, one, two)
		}
	}
}
