package sshd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// TestClientsThatHangUp: a client that ends its connection when it has nothing more to ask has done
// nothing wrong, with or without a DISCONNECT. One that ends it within a packet has.
func TestClientsThatHangUp(t *testing.T) {
	for name, test := range map[string]struct {
		sends []byte
		says  bool // a DISCONNECT
		badly bool
	}{
		"hung up":               {},
		"hung up in a packet":   {sends: []byte{0, 0, 0, 9, 1}, badly: true},
		"disconnected":          {says: true},
		"closed by the program": {says: true, sends: wire.Init{Version: 3}.Append(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logText
				config := onlyPassword(&Access{FS: memfs.New(0)})
				config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := newServer(t, config)
				near, far := net.Pipe()
				conn := newEager(near)
				served := make(chan struct{})
				go func() {
					s.ServeConn(address{far})
					close(served)
				}()
				c, err := logIn(t, conn)
				if err != nil {
					t.Fatal(err)
				}
				ch, err := c.Open(context.Background(), "session", nil)
				if err == nil {
					_, err = ch.SendRequest("subsystem", true,
						ssh.Marshal(struct{ Name string }{"sftp"}))
				}
				if err != nil {
					t.Fatal(err)
				}
				ch.Write(test.sends)
				synctest.Wait()
				if test.says {
					c.Close()
				} else {
					conn.Close()
				}
				<-served
				if log.has("session failed") != test.badly {
					t.Error(log.text.String())
				}
			})
		})
	}
}

// TestHungUpWhileAnswered: a client that ends its connection without waiting for the answer to its
// last CLOSE has done nothing wrong either.
func TestHungUpWhileAnswered(t *testing.T) {
	if err := fmt.Errorf("sending replies: %w", io.EOF); !hungUp(err) {
		t.Errorf("%v is a failure", err)
	}
	if err := fmt.Errorf("sending replies: %w", io.ErrShortWrite); hungUp(err) {
		t.Errorf("%v is none", err)
	}
}
