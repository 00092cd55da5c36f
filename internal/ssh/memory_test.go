package ssh_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/usftp/usftp/internal/ssh"
)

// inUse returns how much memory the process uses.
func inUse() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

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
		before := inUse()
		for range clients {
			a, b := tcpPair()
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
		if each := (inUse() - before) / clients; each > 2*bound {
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
		before := inUse()
		ended := make(chan bool)
		var all []net.Conn
		for range clients {
			a, b := tcpPair()
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
		if each := (inUse() - before) / clients; each > bound {
			t.Errorf("the server holds %d bytes", each)
		} else {
			t.Logf("the server holds %d bytes", each)
		}
		for _, a := range all {
			a.Close()
			<-ended
		}
	})
}
