package sshd

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	transport "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
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
							}, nil), nil
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

// TestMemoryOfSessionsWithoutAProgram: a user's connections open all the channels they may, ask for
// no program, and send what they are allowed to. That takes next to nothing.
func TestMemoryOfSessionsWithoutAProgram(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const connections, bound = 20, 16 << 20
	config := onlyPassword(&Access{FS: memfs.New(0), Sessions: NewSessionLimit(1000)})
	s := newServer(t, config)
	data := make([]byte, 2<<20) // which the window does not allow
	before := testenv.MemoryInUse()
	opened := 0
	for range connections {
		client := overTCP(t, s)
		for {
			ch, err := client.Open(t.Context(), "session", nil)
			if err != nil {
				break
			}
			opened++
			go ch.Write(data)
		}
		// An answer comes after what was sent before the question has arrived.
		if _, _, err := client.SendRequest(t.Context(), "x", true, nil); err != nil {
			t.Fatal(err)
		}
	}
	took := testenv.MemoryInUse() - before
	t.Logf("%d sessions take %d bytes, the client's end included", opened, took)
	if opened != 10*connections || took > bound {
		t.Errorf("%d sessions take %d bytes", opened, took)
	}
}

// TestMemoryOfBusySessions: a user's sessions write to a disk that hangs, and fill their windows.
// Each holds what it is moving, and its window.
func TestMemoryOfBusySessions(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const connections, sessions, bound = 3, 10, 6 << 20
	synctest.Test(t, func(t *testing.T) {
		disk := &hungDisk{FS: memfs.New(0), over: make(chan struct{})}
		s := newServer(t, onlyPassword(&Access{FS: disk}))
		defer close(disk.over)
		before := testenv.MemoryInUse()
		for range connections {
			client := mustConnect(t, s)
			for range sessions {
				channel, err := sftp(client)
				if err != nil {
					t.Fatal(err)
				}
				channel.Write(wire.Open{Path: "/f", Flags: wire.OpenWrite}.Append(nil, 1))
				handle, err := receive(channel)
				if err != nil {
					t.Fatal(err)
				}
				data := wire.Write{Handle: handle[9:], Data: make([]byte, 32<<10)}.Append(nil, 2)
				go func() {
					for range 300 {
						channel.Write(data)
					}
				}()
			}
		}
		time.Sleep(time.Minute) // until nothing moves
		synctest.Wait()
		each := (testenv.MemoryInUse() - before) / (connections * sessions)
		t.Logf("a session takes %d bytes", each)
		if each > bound {
			t.Errorf("a session takes %d bytes", each)
		}
	})
}

// hungDisk takes no data until the test is over.
type hungDisk struct {
	*memfs.FS
	over chan struct{}
}

func (d *hungDisk) Open(context.Context, string, uint32, wire.Attrs) (server.File, error) {
	return hungFile{over: d.over}, nil
}

type hungFile struct {
	server.File
	over chan struct{}
}

func (f hungFile) WriteAt(p []byte, _ int64) (int, error) { <-f.over; return len(p), nil }
func (hungFile) Close() error                             { return nil }

// overTCP logs in to s over TCP, as a client of which nothing is refused.
func overTCP(t *testing.T, s *Server) *transport.Conn {
	t.Helper()
	client, err := tryOverTCP(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func tryOverTCP(t *testing.T, s *Server) (*transport.Conn, error) {
	t.Helper()
	conn, theirs := testenv.TCPPair()
	go s.ServeConn(theirs)
	client, err := logIn(t, conn)
	if err == nil {
		t.Cleanup(func() { client.Close() })
	}
	return client, err
}

// logIn logs in with the password that onlyPassword accepts.
func logIn(t *testing.T, conn net.Conn) (*transport.Conn, error) {
	tries := 0
	return transport.Client(t.Context(), conn, &transport.ClientConfig{
		User: "u", Version: "SSH-2.0-x",
		HostKey: func(net.Addr, ssh.PublicKey, string) error { return nil },
		Auth: func(*transport.AuthContext) (transport.AuthMethod, error) {
			if tries++; tries > 1 {
				return nil, nil
			}
			return transport.Password(func() (string, error) { return "secret", nil }, nil), nil
		},
	})
}
