package ssh_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/ssh"
)

// stoppable joins a client and a server that serves sessions (see echo). stop stops the link:
// nothing more leaves the client or, with answers, the server.
func stoppable(t *testing.T) (client, server *ssh.Conn, stop func(answers bool)) {
	t.Helper()
	user := signer(t, "ed25519")
	a, b := memPipe()
	var serverErr error
	var wait sync.WaitGroup
	wait.Go(func() {
		if server, serverErr = ssh.Server(b, serverConfig(t, user.PublicKey())); serverErr == nil {
			go echo(server)
		}
	})
	client, err := ssh.Client(context.Background(), a, clientConfig(user))
	if wait.Wait(); err != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", err, serverErr)
	}
	return client, server, func(answers bool) {
		way := a.(*memConn).out
		if answers {
			way = b.(*memConn).out
		}
		way.mu.Lock()
		way.limit = 0
		way.mu.Unlock()
	}
}

// TestEveryWaitEnds: if the peer reads nothing, or does not answer a key exchange, everyone who
// waits to send is released by the context, by closing the channel, or by closing the connection,
// without waiting for the exchange to time out.
func TestEveryWaitEnds(t *testing.T) {
	const patience = 5 * time.Second
	for _, state := range []struct {
		name string
		stop func(client *ssh.Conn, ch *ssh.Channel, stop func(answers bool))
	}{
		{"the peer reads nothing", func(_ *ssh.Conn, ch *ssh.Channel, stop func(bool)) {
			stop(false)
			for range 4 { // one fills the output, and the others wait
				go ch.Write(make([]byte, 1<<20))
			}
		}},
		{"the peer answers no exchange", func(client *ssh.Conn, _ *ssh.Channel, stop func(bool)) {
			stop(true)
			client.Rekey()
		}},
	} {
		for _, c := range []struct {
			name string
			wait func(ctx context.Context, client *ssh.Conn, ch *ssh.Channel) error
			end  func(client *ssh.Conn, ch *ssh.Channel) // nil: the context does
			want error
			most time.Duration
		}{
			{"Open by its context", open, nil, context.DeadlineExceeded, patience},
			{"Request by its context", request, nil, context.DeadlineExceeded, patience},
			{"SendRequest by its context", ask, nil, context.DeadlineExceeded, patience},
			{"Write by Close of the channel", write, closeChannel, ssh.ErrClosed, 0},
			{"Request by Close of the channel", forever(request), closeChannel, ssh.ErrClosed, 0},
			{"Open by Close", forever(open), closeConn, ssh.ErrClosed, 2 * time.Second},
			{"Write by Close", write, closeConn, ssh.ErrClosed, 2 * time.Second},
			{"Request by Close", forever(request), closeConn, ssh.ErrClosed, 2 * time.Second},
			{"SendRequest by Close", forever(ask), closeConn, ssh.ErrClosed, 2 * time.Second},
		} {
			t.Run(state.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client, server, stop := stoppable(t)
					defer func() { end(client, server) }()
					busy, ch := session(t, client, "sink"), session(t, client, "sink")
					state.stop(client, busy, stop)
					synctest.Wait()
					began := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					ended := make(chan error, 3)
					for range cap(ended) {
						go func() { ended <- c.wait(ctx, client, ch) }()
					}
					if c.end != nil {
						synctest.Wait()
						c.end(client, ch)
					}
					for range cap(ended) {
						if err := <-ended; !errors.Is(err, c.want) {
							t.Errorf("it ended with %v", err)
						}
					}
					if took := time.Since(began); took > c.most {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

func open(ctx context.Context, client *ssh.Conn, _ *ssh.Channel) error {
	_, err := client.Open(ctx, "session", nil)
	return err
}

func request(ctx context.Context, _ *ssh.Conn, ch *ssh.Channel) error {
	_, err := ch.Request(ctx, "ask", true, nil)
	return err
}

func ask(ctx context.Context, client *ssh.Conn, _ *ssh.Channel) error {
	_, _, err := client.SendRequest(ctx, "ask", true, nil)
	return err
}

func write(_ context.Context, _ *ssh.Conn, ch *ssh.Channel) error {
	_, err := ch.Write(make([]byte, 64<<20))
	return err
}

type waiting = func(context.Context, *ssh.Conn, *ssh.Channel) error

// forever makes a wait ignore its context, which must not be what ends it.
func forever(wait waiting) waiting {
	return func(_ context.Context, client *ssh.Conn, ch *ssh.Channel) error {
		return wait(context.Background(), client, ch)
	}
}

func closeChannel(_ *ssh.Conn, ch *ssh.Channel)  { ch.Close() }
func closeConn(client *ssh.Conn, _ *ssh.Channel) { client.Close() }
