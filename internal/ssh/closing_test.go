package ssh_test

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/ssh"
)

// TestNothingFollowsClose: while one side closes channels, its answers to requests and its window
// adjustments are under way. None may follow CLOSE: the peer has forgotten the channel, and ends
// the connection, as ours does here.
func TestNothingFollowsClose(t *testing.T) {
	const rounds, requests = 100, 10
	user := signer(t, "ed25519")
	client, server := connect(t, clientConfig(user), serverConfig(t, user.PublicKey()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	context.AfterFunc(ctx, func() { client.Close() })
	var serving sync.WaitGroup
	serving.Go(func() {
		for round := 0; ; round++ {
			offer, err := server.Accept()
			if err != nil {
				return
			}
			ch, err := offer.Accept()
			if err != nil {
				continue
			}
			if r, err := ch.NextRequest(); err == nil {
				r.Reply(true)
			}
			// Answers come from the reading goroutine for half of the channels.
			if round%2 == 0 {
				ch.RefuseRequests()
			}
			serving.Go(func() {
				for {
					r, err := ch.NextRequest()
					if err != nil {
						return
					}
					serving.Go(func() { r.Reply(true) })
				}
			})
			serving.Go(func() {
				io.CopyN(io.Discard, ch, int64(round%16)*(64<<10)) // sooner or later
				serving.Go(func() { ch.CloseWrite() })
				ch.Close()
			})
		}
	})
	for range rounds {
		ch, err := client.Open(ctx, "session", nil)
		must(t, err)
		_, err = ch.Request(ctx, "exec", true, nil)
		must(t, err)
		var asking sync.WaitGroup
		for range requests {
			asking.Go(func() { ch.Request(ctx, "ask", true, nil) })
		}
		asking.Go(func() { ch.Write(make([]byte, 1<<20)) })
		<-ch.Done()
		ch.Close()
		asking.Wait()
		if err := client.Err(); err != nil {
			t.Fatalf("the client's connection ended: %v", err)
		}
	}
	if err := server.Err(); err != nil {
		t.Errorf("the server's connection ended: %v", err)
	}
	end(client, server)
	serving.Wait()
}

// TestAnswerAfterClose: a request that is answered only after the channel was closed gets no
// answer.
func TestAnswerAfterClose(t *testing.T) {
	user := signer(t, "ed25519")
	client, server := connect(t, clientConfig(user), serverConfig(t, user.PublicKey()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked := make(chan error, 1)
	opened := make(chan *ssh.Channel, 1)
	go func() {
		ch, err := client.Open(ctx, "session", nil)
		if err != nil {
			asked <- err
			return
		}
		opened <- ch
		_, err = ch.Request(ctx, "ask", true, nil)
		asked <- err
	}()
	offer, err := server.Accept()
	must(t, err)
	ch, err := offer.Accept()
	must(t, err)
	r, err := ch.NextRequest()
	must(t, err)
	must(t, ch.Close())
	<-ch.Done() // the client has closed it, too, and forgotten it
	must(t, r.Reply(true))
	if err := <-asked; err == nil {
		t.Error("the request was answered")
	}
	// The connection is still in order.
	_, _, err = client.SendRequest(ctx, "keepalive@openssh.com", true, nil)
	must(t, err)
	(<-opened).Close()
}

// TestWriteWhileTheConnectionEnds: a Write that fails since the peer has ended the connection says
// that, and not that this side has closed it, which would be a failure to those who report it.
func TestWriteWhileTheConnectionEnds(t *testing.T) {
	user := signer(t, "ed25519")
	var opened atomic.Pointer[ssh.Channel]
	failed := make(chan error, 1)
	client, server, err, serverErr := tryConnect(clientConfig(user),
		serverConfig(t, user.PublicKey()), func(c net.Conn) net.Conn {
			return closing{c, sync.OnceFunc(func() {
				if ch := opened.Load(); ch != nil {
					_, err := ch.Write([]byte("x"))
					failed <- err
				}
			})}
		})
	if err != nil || serverErr != nil {
		t.Fatalf("client: %v; server: %v", err, serverErr)
	}
	defer end(client, server)
	go echo(server)
	opened.Store(session(t, client, "sink"))
	server.Close()
	if err := <-failed; err != io.EOF {
		t.Errorf("the error is %v", err)
	}
}

// closing is a connection that does something else once it is closed.
type closing struct {
	net.Conn
	then func()
}

func (c closing) Close() error {
	err := c.Conn.Close()
	c.then()
	return err
}
