package pool_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// stuckConnection is a connection with one session, which takes nothing once stuck is set.
type stuckConnection struct {
	t      *testing.T
	files  *memfs.FS
	stuck  *atomic.Bool
	client *usftp.Client
}

type stuckStream struct {
	net.Conn
	stuck *atomic.Bool
	ended context.Context
	end   context.CancelFunc
}

func (s *stuckStream) Write(p []byte) (int, error) {
	if s.stuck.Load() {
		<-s.ended.Done()
	}
	return s.Conn.Write(p)
}

func (s *stuckStream) Close() error {
	s.end()
	return s.Conn.Close()
}

func (c *stuckConnection) Open(context.Context) (*usftp.Client, error) {
	near, far := net.Pipe()
	go server.Serve(context.Background(), far, c.files, nil)
	stream := &stuckStream{Conn: near, stuck: c.stuck}
	stream.ended, stream.end = context.WithCancel(context.Background())
	client, err := usftp.NewClientPipe(stream, stream)
	c.client = client
	return client, err
}

func (c *stuckConnection) Close() error {
	if !pool.Lost(c.client) {
		c.t.Error("the connection is closed before its session")
	}
	return nil
}

// A session whose connection is closed first would report that it was lost, at the end of a run in
// which nothing went wrong.
func TestSessionsEndBeforeTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		connect := func() *stuckConnection {
			return &stuckConnection{t: t, files: memfs.New(1 << 20), stuck: &stuck}
		}
		first := connect()
		client, err := first.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		further := pool.New(pool.Config{First: first,
			Connect: func(context.Context) (pool.Connection, error) { return connect(), nil }})
		further.Want(2, 1)
		synctest.Wait()
		_, release := further.Acquire()
		defer release()
		session, release := further.Acquire()
		defer release()
		if session == nil {
			t.Fatal("there is no second connection")
		}
		stuck.Store(true)
		session.Async().Stat("/") // which Close gives a moment to leave
		further.Close()
		client.Close()
		if err := session.Wait(); err != usftp.ErrClosed {
			t.Error(err)
		}
	})
}

// A Host without a Pool works like one whose Pool has only the first session.
func TestNilPool(t *testing.T) {
	var p *pool.Pool
	p.Want(2, 2)
	client, release := p.Acquire()
	release()
	if err := p.Close(); client != nil || err != nil {
		t.Error(client, err)
	}
}

// TestNothingToConnect: without Config.Connect there is the first connection only.
func TestNothingToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Bool
		first := &stuckConnection{t: t, files: memfs.New(1 << 20), stuck: &stuck}
		client, err := first.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		only := pool.New(pool.Config{First: first, Connections: 3})
		defer only.Close()
		only.Want(3, 1)
		synctest.Wait()
		_, release := only.Acquire()
		defer release()
		session, release := only.Acquire()
		defer release()
		if session != nil {
			t.Error("there is a second session")
		}
	})
}
