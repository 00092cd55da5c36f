package pool_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// silent is a host that lives, but leaves some requests without an answer.
type silent struct {
	*pool.Conn
	end    *sftptest.End // of the latest connection
	logins int
}

func newSilent(t *testing.T, ignores func(sftptest.Request) bool) *silent {
	t.Helper()
	server := sftptest.NewServer(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if ignores(r) {
				return []sftptest.Action{sftptest.Delay(1000 * time.Hour)}
			}
			return nil
		}})
	s := new(silent)
	dial := func(context.Context) (pool.Host, error) {
		s.logins++
		s.end = server.Dial(sftptest.LinkConfig{})
		client, err := usftp.NewClientPipe(s.end, s.end,
			usftp.WithKeepalive(func(context.Context) error { return nil }))
		if err == nil {
			t.Cleanup(func() { client.Close() })
		}
		return pool.Host{Client: client, Name: "h"}, err
	}
	host, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host.Redial = dial
	s.Conn = pool.NewConn(t.Context(), host, pool.Retry{Retries: 2})
	return s
}

// do asks over as many connections as it takes.
func (s *silent) do(ask func(*usftp.Client) error) error {
	return s.Do(func(pool.Attempt) {}, func(client *usftp.Client, _ bool) error { return ask(client) })
}

// TestRetriesAfterAQuestion: after a question that failed alone, everything else has all retries.
func TestRetriesAfterAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSilent(t, func(r sftptest.Request) bool { return r.Path == "/dead" })
		var stall *usftp.StallError
		err := s.do(func(c *usftp.Client) error { _, err := c.Lstat("/dead"); return err })
		if !errors.As(err, &stall) || s.logins != 2 {
			t.Errorf("%v after %d logins", err, s.logins)
		}
		for range 2 {
			s.end.Close()
			<-s.Host().Client.Done()
			if err := s.do(func(c *usftp.Client) error { _, err := c.Lstat("/"); return err }); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestQuestionsOfTheSameKind: each of two questions is asked twice, also if both are extended requests
// of the same name.
func TestQuestionsOfTheSameKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(map[string]int)
		s := newSilent(t, func(r sftptest.Request) bool {
			asked[r.Path]++
			return r.Extension == wire.ExtStatVFS && asked[r.Path] == 1
		})
		for _, name := range []string{"/a", "/b"} {
			err := s.do(func(c *usftp.Client) error { _, err := c.StatVFS(name); return err })
			if !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
			s.Arrived()
		}
	})
}
