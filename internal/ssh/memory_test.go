package ssh_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
)

// TestMemoryBeforeLogin measures the cost of clients that are not logged in: those that have keys
// and wait (including their own memory), and those that have sent half of the largest packet.
func TestMemoryBeforeLogin(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const clients = 100
	const bound = 64 << 10 // doubled for two sides
	key := signer(t, "ed25519")
	sc := serverConfig(t, key.PublicKey())
	sc.Buffers = new(ssh.Buffers)
	t.Run("with keys", func(t *testing.T) {
		waiting, leave := make(chan bool), make(chan bool)
		ended := make(chan bool)
		before := testenv.MemoryInUse()
		for range clients {
			a, b := testenv.TCPPair()
			go func() {
				ssh.Server(b, sc)
				ended <- true
			}()
			go func() {
				cc := clientConfig(key)
				cc.Auth = func(*ssh.AuthContext) (ssh.AuthMethod, error) {
					waiting <- true
					<-leave
					return nil, errors.New("enough")
				}
				ssh.Client(context.Background(), a, cc)
			}()
		}
		for range clients {
			<-waiting
		}
		if each := (testenv.MemoryInUse() - before) / clients; each > 2*bound {
			t.Errorf("client and server together hold %d bytes", each)
		} else {
			t.Logf("client and server together hold %d bytes", each)
		}
		close(leave)
		for range clients {
			<-ended
		}
	})
	t.Run("half a packet", func(t *testing.T) {
		before := testenv.MemoryInUse()
		ended := make(chan bool)
		var all []net.Conn
		for range clients {
			a, b := testenv.TCPPair()
			all = append(all, a)
			go func() {
				ssh.Server(b, sc)
				ended <- true
			}()
			p := append([]byte("SSH-2.0-x\r\n"), binary.BigEndian.AppendUint32(nil, 34996)...)
			if _, err := a.Write(append(p, make([]byte, 34000)...)); err != nil {
				t.Fatal(err)
			}
			p = make([]byte, 1500)
			for n := 0; n < 20; { // its first words
				m, err := a.Read(p)
				must(t, err)
				n += m
			}
		}
		runtime.Gosched()
		if each := (testenv.MemoryInUse() - before) / clients; each > bound {
			t.Errorf("the server holds %d bytes", each)
		} else {
			t.Logf("the server holds %d bytes", each)
		}
		for _, a := range all {
			a.Close()
			<-ended
		}
	})
	// The client sends what makes the server keep most, and half of one more packet.
	half := append(binary.BigEndian.AppendUint32(nil, 34996), make([]byte, 34000)...)
	long := strings.Repeat("x", 30_000)
	cert := certify(t, key, xssh.UserCert, long).PublicKey()
	other := certify(t, key, xssh.UserCert, long[1:]).PublicKey()
	for _, c := range []struct {
		name  string
		first []byte
		kex   bool // a whole connection, rather than a login without encryption
	}{
		{"a long KEXINIT", append(ssh.FirstWords(long), half...), true},
		{"a KEXINIT of many names", append(ssh.FirstWords(strings.Repeat(",", 30_000)), half...),
			true},
		{"a long name and a long key", append(ssh.FramedLogin(
			[3]string{"ann", "publickey", ssh.KeyQuery(cert)},
			[3]string{long[:ssh.MaxUser], "none"}),
			half...), false},
		{"errors that quote a certificate", append(ssh.FramedLogin(
			[3]string{"quoted", "publickey", ssh.KeyQuery(cert)},
			[3]string{"quoted", "publickey", ssh.KeyQuery(other)},
			[3]string{"quoted", "publickey", ssh.KeyQuery(cert)}), half...), false},
		{"a long password", ssh.FramedLogin([3]string{"ann", "password",
			ssh.PasswordAttempt(long[:ssh.MaxSecret])}), false},
		{"a ping whose answer is not read", append(ssh.FramedPing(long[:ssh.LoginPing]), half...),
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := testenv.MemoryInUse()
			waiting, leave, ended := make(chan bool), make(chan bool), make(chan error, clients)
			for range clients {
				conn := &script{rest: c.first, waiting: waiting, leave: leave,
					stuck: strings.HasSuffix(c.name, "not read")}
				go func() {
					if c.kex {
						_, err := ssh.Server(conn, sc)
						ended <- err
						return
					}
					ended <- ssh.LoginOver(conn, cert, func(p []byte) error {
						waiting <- true
						<-leave
						return errors.New("no")
					})
				}()
			}
			for range clients {
				<-waiting
			}
			if each := (testenv.MemoryInUse() - before) / clients; each > bound {
				t.Errorf("the server holds %d bytes", each)
			} else {
				t.Logf("the server holds %d bytes", each)
			}
			close(leave)
			for range clients {
				if <-ended == nil {
					t.Error("somebody logged in")
				}
			}
		})
	}
}

// TestMemoryWithoutASession measures the cost of clients that are logged in, open no channel, read
// nothing, ask as much as a server answers, and then send most of the largest packet.
func TestMemoryWithoutASession(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const clients, bound = 10, 1 << 20
	user := signer(t, "ed25519")
	sc := serverConfig(t, user.PublicKey())
	sc.Algorithms.Ciphers = []string{xssh.CipherAES128GCM}
	sc.Buffers = new(ssh.Buffers)
	synctest.Test(t, func(t *testing.T) {
		packet := append(binary.BigEndian.AppendUint32(nil, 256<<10-16), make([]byte, 250<<10)...)
		before := testenv.MemoryInUse()
		for range clients {
			a, b := memPipe()
			var server *ssh.Conn
			var serverErr error
			var wait sync.WaitGroup
			wait.Go(func() { server, serverErr = ssh.Server(b, sc) })
			client, err := ssh.Client(t.Context(), a, clientConfig(user))
			if wait.Wait(); err != nil || serverErr != nil {
				t.Fatal(err, serverErr)
			}
			defer end(client, server)
			synctest.Wait()
			a.(*memConn).in.stop()
			for range 29 { // the first answer is being written, the others fill another block
				must(t, ssh.Inject(client, ssh.Ping(make([]byte, 10_000))))
				synctest.Wait()
			}
			_, err = a.Write(packet)
			must(t, err)
			synctest.Wait()
			if left := len(a.(*memConn).out.data); left > 0 || server.Err() != nil {
				t.Fatalf("the server has not read %d bytes: %v", left, server.Err())
			}
		}
		if each := (testenv.MemoryInUse() - before) / clients; each > bound {
			t.Errorf("client and server together hold %d bytes", each)
		} else {
			t.Logf("client and server together hold %d bytes", each)
		}
	})
}

// script is a connection whose peer sends something, and then waits. If it is stuck, the peer reads
// nothing.
type script struct {
	net.Conn
	rest    []byte
	stuck   bool
	waiting chan<- bool
	leave   <-chan bool
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		s.wait()
		return 0, io.EOF
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) wait() {
	select {
	case s.waiting <- true:
		<-s.leave
	case <-s.leave:
	}
}

func (s *script) Write(p []byte) (int, error) {
	if s.stuck {
		s.wait()
	}
	return len(p), nil
}

func (*script) Close() error                     { return nil }
func (*script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }
