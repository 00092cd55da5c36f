package sshd

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/memfs"
)

// from is the far end of a pipe, with an address of its own.
type from struct {
	net.Conn
	ip string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.ip), Port: 1} }

// connectFrom is connect from an address; latency delays each of the client's writes.
func connectFrom(s *Server, ip string, latency time.Duration) (*ssh.Client, error) {
	client, theirs := net.Pipe()
	go s.ServeConn(from{theirs, ip})
	ours := newEager(slow{client, latency})
	conn, channels, requests, err := ssh.NewClientConn(ours, "server",
		&ssh.ClientConfig{
			User: "u", Auth: []ssh.AuthMethod{ssh.Password("secret")},
			HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
	if err != nil {
		ours.Close()
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), nil
}

type slow struct {
	net.Conn
	latency time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.latency)
	return s.Conn.Write(p)
}

// silent opens connections that send nothing, and replaces each that is closed, until the test
// ends.
func silent(t *testing.T, s *Server, addresses, each int) {
	t.Helper()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range addresses * each {
		all.Go(func() {
			for {
				ours, theirs := net.Pipe()
				done := make(chan struct{})
				go func() {
					s.ServeConn(from{theirs, fmt.Sprintf("198.51.100.%d", i%addresses)})
					close(done)
				}()
				closed := make(chan struct{})
				go func() {
					io.Copy(io.Discard, ours)
					close(closed)
				}()
				select {
				case <-closed:
				case <-stop:
				}
				ours.Close()
				<-done
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		s.Close()
		all.Wait()
	})
	synctest.Wait()
}

// TestSilentConnectionsShutNobodyOut: 200 silent connections from 40 addresses that return when
// they are closed keep nobody out, not even a client with a slow link.
func TestSilentConnectionsShutNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		silent(t, s, 40, 5)
		for i, latency := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond} {
			began := time.Now()
			client, err := connectFrom(s, fmt.Sprintf("192.0.2.%d", i+1), latency)
			if err != nil {
				t.Fatalf("with %v: %v after %v", latency, err, time.Since(began))
			}
			// A login is about ten writes.
			if took := time.Since(began); took > 12*latency+5*time.Second {
				t.Errorf("with %v a login takes %v", latency, took)
			}
			client.Close()
		}
	})
}

// TestBurstsOfLoginsPass: honest logins that come at the same time wait for each other, and none is
// dropped.
func TestBurstsOfLoginsPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.MaxLogins = 20
		s := newServer(t, config)
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				client, err := connectFrom(s, fmt.Sprintf("192.0.2.%d", i%20), 50*time.Millisecond)
				if err != nil {
					t.Errorf("%d: %v", i, err)
					return
				}
				client.Close()
			})
		}
		all.Wait()
	})
}

// TestKnownAddressesHaveAShare: an address that has logged in before gets in at once, whatever else
// happens.
func TestKnownAddressesHaveAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		client, err := connectFrom(s, "192.0.2.1", 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		client.Close()
		silent(t, s, 100, 1)
		began := time.Now()
		if client, err = connectFrom(s, "192.0.2.1", 0); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("a login takes %v", took)
		}
	})
}

// TestDropsAsMaxStartupsDoes: with that probability, and the right victim.
func TestDropsAsMaxStartupsDoes(t *testing.T) {
	limits := &loginLimits{start: 50, rate: 30, full: 100, each: 20, known: 5, stale: time.Second}
	g := newGuard(NewBanList())
	clock := time.Now()
	g.now = func() time.Time { return clock }
	for taken, want := range map[int]int{0: 0, 49: 0, 50: 30, 75: 65, 99: 98, 100: 100, 120: 100} {
		g.taken[0] = taken
		drops := 0
		for i := range 100 {
			g.draw = func(int) int { return i }
			if g.drops(limits) {
				drops++
			}
		}
		if drops != want {
			t.Errorf("of %d one is dropped in %d of 100 cases, want %d", taken, drops, want)
		}
	}

	g = newGuard(NewBanList())
	g.now = func() time.Time { return clock }
	lost := map[string]int{}
	begin := func(ip string) (string, *place) {
		p := &place{network: Network(netip.MustParseAddr(ip)), drop: func() { lost[ip]++ }}
		reason, _ := g.tryBegin(p, limits)
		return reason, p
	}
	for i := range 80 {
		begin(fmt.Sprintf("198.51.100.%d", i))
	}
	for range 20 {
		begin("203.0.113.1")
	}
	if reason, _ := begin("192.0.2.1"); reason == "" || len(lost) != 0 {
		t.Errorf("somebody new was dropped: %v", lost)
	}
	clock = clock.Add(2 * time.Second)
	for range 5 {
		if reason, _ := begin("192.0.2.1"); reason != "" {
			t.Error(reason)
		}
	}
	if lost["203.0.113.1"] != 5 || len(lost) != 1 {
		t.Errorf("dropped were %v, and not those of the address with most", lost)
	}
	g.loggedIn(netip.MustParseAddr("192.0.2.2"))
	var known []*place
	for i := range 6 {
		reason, p := begin("192.0.2.2")
		known = append(known, p)
		// The sixth displaces another.
		if want := 5 + i/5; reason != "" || lost["203.0.113.1"] != want {
			t.Errorf("known address, %d: %q, %v", i, reason, lost)
		}
	}
	for _, p := range known {
		g.end(p)
	}
	if g.taken[1] != 0 || len(g.places[known[0].network]) != 0 {
		t.Errorf("%v taken in the end", g.taken)
	}
}

// TestConnectionsWithoutALoginAreCounted: those that try nothing, and those that keep their place
// until the timeout. Those that leave without sending anything are load balancers.
func TestConnectionsWithoutALoginAreCounted(t *testing.T) {
	end := map[string]func(conn net.Conn){
		"none": func(conn net.Conn) {
			ssh.NewClientConn(conn, "", &ssh.ClientConfig{User: "u",
				HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		},
		"version only": func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, len(serverVersion)+2))
			go io.Copy(io.Discard, conn)
			conn.Write([]byte("SSH-2.0-x\r\n"))
			synctest.Wait()
			conn.Close()
		},
		"silence": func(conn net.Conn) {
			conn.Write([]byte("S"))
			io.Copy(io.Discard, conn)
		},
		"a look": func(conn net.Conn) { conn.Close() },
	}
	for name, want := range map[string]float64{"none": noLogin, "version only": noLogin,
		"silence": timedOut, "a look": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
				client, theirs := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { s.ServeConn(from{theirs, "192.0.2.1"}) })
				ours := newEager(client)
				end[name](ours)
				ours.Close()
				serving.Wait()
				got := 0.0
				source := Source{Network: Network(netip.MustParseAddr("192.0.2.1"))}
				if r := s.guard.bans.(*BanList).records[source]; r != nil {
					got = r.failures
				}
				if got != want {
					t.Errorf("it counts for %v, want %v", got, want)
				}
			})
		})
	}
}
