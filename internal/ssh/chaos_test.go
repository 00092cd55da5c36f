package ssh_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/ssh"
)

// gated is a connection whose Read waits once it is shut, as that of a peer that has stopped
// reading. Closing it ends the wait.
type gated struct {
	net.Conn
	mu     sync.Mutex
	change sync.Cond
	shut   bool
	closed bool
}

func newGated(c net.Conn) *gated {
	g := &gated{Conn: c}
	g.change.L = &g.mu
	return g
}

func (g *gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut && !g.closed {
		g.change.Wait()
	}
	return n, err
}

func (g *gated) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

func (g *gated) Close() error {
	g.mu.Lock()
	g.closed = true
	g.change.Broadcast()
	g.mu.Unlock()
	return g.Conn.Close()
}

// traffic uses a connection in every way at once, until it ends. The peer may do anything, so no
// result is checked: what counts is that each call returns once the connection has ended.
func traffic(conn *ssh.Conn, rng *rand.Rand, work *sync.WaitGroup) {
	use := func(ch *ssh.Channel, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 2))
		work.Go(func() {
			for {
				r, err := ch.NextRequest()
				if err != nil {
					return
				}
				r.Reply(true)
			}
		})
		if rng.IntN(4) > 0 { // or nobody reads, and the window fills
			work.Go(func() { io.Copy(io.Discard, ch) })
		}
		work.Go(func() {
			for {
				if _, err := ch.Write(make([]byte, rng.IntN(100<<10))); err != nil {
					return
				}
			}
		})
		work.Go(func() {
			for {
				if _, err := ch.SendRequest("ask", true, nil); err != nil {
					break
				}
			}
			ch.CloseWrite()
			ch.Close()
		})
	}
	work.Go(func() {
		for {
			offer, err := conn.Accept()
			if err != nil {
				return
			}
			if ch, err := offer.Accept(); err == nil {
				use(ch, 1)
			}
		}
	})
	for range rng.IntN(4) {
		seed := rng.Uint64()
		work.Go(func() {
			if ch, err := conn.Open(context.Background(), "session", nil); err == nil {
				use(ch, seed)
			}
		})
	}
	work.Go(func() {
		for {
			_, _, err := conn.SendRequest(context.Background(), "keepalive@openssh.com", true, nil)
			if err != nil {
				return
			}
		}
	})
	if rng.IntN(2) == 0 {
		work.Go(func() {
			for conn.Rekey() == nil {
				select {
				case <-conn.Done():
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

// TestChaos: after a violation of the protocol, whatever else is under way, the connection of
// whoever is attacked ends within a second, and everybody who waits for something is released. So
// does the attacker's, which has the same code, if it reads.
func TestChaos(t *testing.T) {
	took := soak.Pick(2*time.Second, 20*time.Second)
	if long, err := strconv.Atoi(os.Getenv("USFTP_SOAK")); err == nil && long > 1 {
		took = time.Duration(long) * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("the first seed is %d", seed)
	user := signer(t, "ed25519")
	server := serverConfig(t, user.PublicKey())
	var lanes sync.WaitGroup
	for lane := range uint64(4) {
		lanes.Go(func() {
			for n, began := uint64(0), time.Now(); time.Since(began) < took && !t.Failed(); n++ {
				cc := clientConfig(user)
				chaos(t, cc, server, rand.New(rand.NewPCG(seed+n, lane)))
			}
		})
	}
	lanes.Wait()
}

func chaos(t *testing.T, cc *ssh.ClientConfig, sc *ssh.ServerConfig, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		cc.RekeyBytes = 1 << (14 + rng.IntN(8))
	}
	var gate *gated
	client, server, err, serverErr := tryConnect(cc, sc, func(c net.Conn) net.Conn {
		gate = newGated(c)
		return gate
	})
	if err != nil || serverErr != nil {
		t.Errorf("client: %v; server: %v", err, serverErr)
		return
	}
	attacker, attacked := client, server
	stuck := rng.IntN(3) == 0
	if !stuck && rng.IntN(2) == 0 {
		attacker, attacked = server, client
	}
	var work sync.WaitGroup
	traffic(client, rand.New(rand.NewPCG(rng.Uint64(), 1)), &work)
	traffic(server, rand.New(rand.NewPCG(rng.Uint64(), 1)), &work)
	for range rng.IntN(30) {
		ssh.Inject(attacker, ssh.RandomMessage(rng))
		if rng.IntN(4) == 0 {
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		}
	}
	if stuck {
		gate.stop() // so that the other side's last words cannot be sent
	}
	ssh.Inject(attacker, ssh.Violation())
	limit := time.AfterFunc(ssh.CloseTimeout+20*time.Second, func() { // on a busy machine
		t.Errorf("attacker: %v, attacked: %v", attacker.Err(), attacked.Err())
		panic("a connection or somebody who uses it waits for ever")
	})
	defer limit.Stop()
	for ended := false; !ended; {
		select {
		case <-attacked.Done():
			ended = true
		case <-time.After(50 * time.Millisecond):
			ssh.Inject(attacker, ssh.Violation()) // there was no room for it
		}
	}
	if stuck {
		gate.Close()
	}
	<-attacker.Done()
	work.Wait()
}
