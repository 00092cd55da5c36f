package shell

import (
	"cmp"
	"context"
	"path"
	"strings"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// A session is a login that is replaced when it is lost, and the current directory.
type session struct {
	target dial.Target
	config pool.ConnectConfig
	retry  pool.Retry
	tell   func(message string)

	mu    sync.Mutex
	login *pool.Login // nil before the first login
	home  string      // where the first login began
	dir   string      // absolute; typed paths are relative to it
	was   string      // the directory before the last cd, "" if there was none
}

// connect returns the host. If there is no connection, it makes one.
func (s *session) connect(ctx context.Context) (pool.Host, error) {
	s.mu.Lock()
	login := s.login
	s.mu.Unlock()
	if login == nil {
		return s.logIn(ctx)
	}
	host := login.Host()
	if !pool.Lost(host.Client) {
		return host, nil
	}
	return s.reconnect(ctx, host)
}

// logIn gives the session a new login, in the current directory.
func (s *session) logIn(ctx context.Context) (pool.Host, error) {
	login, err := pool.Connect(ctx, s.target, s.config)
	if err != nil {
		return pool.Host{}, err
	}
	dir := s.dir
	if dir == "" {
		dir, err = login.Host().Client.WithContext(ctx).RealPath(".")
		if private.Untold(err) { // the host takes paths relative to the login directory
			dir, err = ".", nil
		}
		if err != nil {
			login.Close()
			return pool.Host{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.login != nil {
		s.login.Close()
	}
	s.login, s.dir, s.home = login, dir, cmp.Or(s.home, dir)
	return login.Host(), nil
}

// reconnect replaces a lost connection. A login that needs a password asks for it again.
func (s *session) reconnect(ctx context.Context, lost pool.Host) (pool.Host, error) {
	if lost.Redial == nil {
		s.tell(s.target.UserHost() + ": connection lost; reconnecting")
		return s.logIn(ctx)
	}
	retry := s.retry
	retry.Retries = max(1, retry.Retries)
	conn := pool.NewConn(ctx, lost, retry)
	why := lost.Client.Wait()
	if !conn.Renew(conn.Host().Client, why, func(a pool.Attempt) { s.tell(a.Message) }) {
		if ctx.Err() != nil {
			return pool.Host{}, context.Cause(ctx)
		}
		return pool.Host{}, &dial.Error{Host: s.target.UserHost(), Err: conn.Why(why)}
	}
	return s.login.Host(), nil
}

// lost reports whether there was a connection that is now lost.
func (s *session) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.login != nil && pool.Lost(s.login.Host().Client)
}

// client returns the client and the directory without waiting; client is nil if there is no
// connection.
func (s *session) client() (client *usftp.Client, dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.login != nil && !pool.Lost(s.login.Host().Client) {
		client = s.login.Host().Client
	}
	return client, s.dir
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.login != nil {
		s.login.Close()
	}
}

// enter changes the current directory.
func (s *session) enter(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = dir
}

// abs returns the absolute path of a typed name. It keeps "..", whose meaning after a symbolic link
// only the server knows.
func (s *session) abs(name string) string {
	switch {
	case name == "":
		return s.dir
	case path.IsAbs(name):
		return name
	}
	return strings.TrimSuffix(s.dir, "/") + "/" + name
}
