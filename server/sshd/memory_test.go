package sshd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/memfs"
)

// TestMemoryOfConnectionsBeforeLogin: at most 64 KiB each, with everything that the server keeps
// for them, both after half a packet and after a key exchange and a failed login.
func TestMemoryOfConnectionsBeforeLogin(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const clients, bound = 100, 64 << 10
	config := onlyPassword(&Access{FS: memfs.New(0)})
	config.Exempt = func(netip.Addr) bool { return true }
	s := newServer(t, config)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	t.Run("half a packet", func(t *testing.T) {
		conns := make([]net.Conn, clients)
		for i := range conns {
			conns[i] = dial()
		}
		before := testenv.MemoryInUse()
		for _, conn := range conns {
			p := append([]byte("SSH-2.0-x\r\n"), binary.BigEndian.AppendUint32(nil, 34996)...)
			if _, err := conn.Write(append(p, make([]byte, 34000)...)); err != nil {
				t.Fatal(err)
			}
			// KEXINIT: the server has started to read
			if _, err := io.ReadFull(conn, make([]byte, 512)); err != nil {
				t.Fatal(err)
			}
		}
		if each := (testenv.MemoryInUse() - before) / clients; each > bound {
			t.Errorf("a connection takes %d bytes", each)
		}
	})
	t.Run("a failed login", func(t *testing.T) {
		failed, leave, left := make(chan bool), make(chan bool), make(chan bool)
		before := testenv.MemoryInUse()
		for range clients {
			conn := dial()
			go func() {
				tries := 0
				transport.Client(context.Background(), conn, &transport.ClientConfig{
					User: "u", Version: "SSH-2.0-x",
					HostKey: func(net.Addr, ssh.PublicKey, string) error { return nil },
					Auth: func(*transport.AuthContext) (transport.AuthMethod, error) {
						if tries++; tries == 1 {
							return transport.Password(func() (string, error) {
								return "wrong", nil
							}), nil
						}
						failed <- true
						<-leave
						return nil, errors.New("enough")
					},
				})
				left <- true
			}()
		}
		for range clients {
			<-failed
		}
		if each := (testenv.MemoryInUse() - before) / clients; each > 2*bound {
			t.Errorf("a connection takes %d bytes, the client's end included", each)
		}
		close(leave)
		for range clients {
			<-left
		}
	})
}
