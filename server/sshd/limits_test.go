package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

func TestBansAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		for range usual.UserFailures + 3 {
			if _, err := connect(s, ssh.Password("wrong")); err == nil {
				t.Fatal("a wrong password was taken")
			}
		}
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a banned address got in")
		}
		time.Sleep(2 * usual.First)
		mustConnect(t, s)

		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Exempt = func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.7") }
		s = newServer(t, config)
		for range usual.UserFailures + 3 {
			connect(s, ssh.Password("wrong"))
		}
		mustConnect(t, s)

		config.Exempt, config.MaxLoginsEach = nil, 3
		s = newServer(t, config)
		var silent []net.Conn
		for range 3 {
			ours, theirs := net.Pipe()
			go s.ServeConn(address{theirs})
			silent = append(silent, ours)
		}
		synctest.Wait()
		began := time.Now()
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a fourth connection was let in")
		}
		if waited := time.Since(began); waited != 15*time.Second {
			t.Errorf("it was closed after %v", waited)
		}
		// Silent connections are closed in time, and then those that wait get in.
		time.Sleep(5 * time.Second)
		began = time.Now()
		mustConnect(t, s)
		if waited := time.Since(began); waited > 20*time.Second {
			t.Errorf("it came in after %v", waited)
		}
		for _, conn := range silent {
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Error(err)
			}
		}
		mustConnect(t, s)
	})
}

func TestSessionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := &Access{FS: memfs.New(0), Sessions: NewSessionLimit(3)}
		config := onlyPassword(access)
		config.MaxSessions = 2
		s := newServer(t, config)
		first, second := mustConnect(t, s), mustConnect(t, s)
		open := func(client *ssh.Client, want bool) ssh.Channel {
			t.Helper()
			channel, err := sftp(client)
			if (err == nil) != want {
				t.Errorf("a session: %v", err)
			}
			return channel
		}
		open(first, true)
		channel := open(first, true)
		open(first, false) // of the connection
		open(second, true)
		open(second, false) // of the user
		channel.Close()
		synctest.Wait()
		open(second, true)
	})
}

// TestLimitsOfAUser: by default a user has at most 100 sessions, and as many connections, over all
// connections. A further session is refused and its connection goes on; a further connection learns
// why it ends. Others do not notice.
func TestLimitsOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		access := &Access{FS: memfs.New(0)}
		s := newServer(t, Config{Password: func(ssh.ConnMetadata, string) (*Access, error) {
			return access, nil
		}})
		var clients []*ssh.Client
		for range userMost {
			clients = append(clients, mustConnect(t, s))
		}
		for i := range userMost {
			if _, err := sftp(clients[i%30]); err != nil {
				t.Fatalf("session %d: %v", i, err)
			}
		}
		refused := func(client *ssh.Client) {
			t.Helper()
			var why *ssh.OpenChannelError
			if _, err := sftp(client); !errors.As(err, &why) ||
				why.Reason != ssh.ResourceShortage {
				t.Errorf("another session: %v", err)
			}
		}
		refused(clients[0])
		refused(clients[userMost-1])
		refused(clients[0]) // it is still there

		late, err := connect(s, ssh.Password("secret"))
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Wait(); err == nil || !strings.Contains(err.Error(), "too many connections") {
			t.Errorf("another connection: %v", err)
		}
		other, err := connectAs(s, "other", ssh.Password("secret"))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if _, err := sftp(other); err != nil {
			t.Errorf("another user: %v", err)
		}

		clients[0].Close() // and its four sessions
		synctest.Wait()
		again := mustConnect(t, s)
		for range 4 {
			if _, err := sftp(again); err != nil {
				t.Errorf("after others have ended: %v", err)
			}
		}
		refused(again)
	})
}

// TestConnectionsForSessions: a user who may have more sessions may have as many connections.
func TestConnectionsForSessions(t *testing.T) {
	for _, c := range []struct{ sessions, want int }{{3, userMost}, {1000, 1000}} {
		access := &Access{Sessions: NewSessionLimit(c.sessions)}
		if got := access.mostConnections(); got != c.want {
			t.Errorf("with %d sessions %d connections are allowed", c.sessions, got)
		}
	}
}

// TestSessionWithoutAProgramEnds: one that asks for none, or only for what is not served, gives its
// place back; one with a program may stay idle.
func TestSessionWithoutAProgramEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.LoginTimeout, config.MaxSessions = 20*time.Second, 3
		s := newServer(t, config)
		client := mustConnect(t, s)
		idle, err := sftp(client)
		if err != nil {
			t.Fatal(err)
		}
		var ended []<-chan *ssh.Request
		for range 2 {
			channel, requests, err := client.OpenChannel("session", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer channel.Close()
			if ok, err := channel.SendRequest("pty-req", true, nil); ok || err != nil {
				t.Errorf("a terminal: %v, %v", ok, err)
			}
			ended = append(ended, requests)
		}
		began := time.Now()
		for _, requests := range ended {
			for range requests {
			}
		}
		if took := time.Since(began); took != config.LoginTimeout {
			t.Errorf("they ended after %v", took)
		}
		synctest.Wait() // until their places are free
		for range 2 {
			if _, err := sftp(client); err != nil {
				t.Errorf("in their place: %v", err)
			}
		}
		idle.Write(wire.PathRequest{Type: wire.TypeRealpath, Path: "/"}.Append(nil, 1))
		if _, err := receive(idle); err != nil {
			t.Errorf("the session with a program: %v", err)
		}
	})
}

// TestHangingStorageHoldsFewConnections: while a user's files cannot be opened, clients that come
// and go hold no more connections than the user may have.
func TestHangingStorageHoldsFewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opening atomic.Int64
		answers := make(chan struct{})
		s := newServer(t, onlyPassword(&Access{Open: func() (server.FS, server.Policy, error) {
			opening.Add(1)
			<-answers
			return memfs.New(0), server.Policy{}, nil
		}}))
		for range userMost + 10 {
			client := mustConnect(t, s)
			synctest.Wait() // until it is logged in
			client.Close()
		}
		if n := opening.Load(); n != userMost {
			t.Errorf("%d connections wait for the storage", n)
		}
		close(answers)
		synctest.Wait()
		if _, err := sftp(mustConnect(t, s)); err != nil {
			t.Errorf("once the storage answers: %v", err)
		}
	})
}

// slowFS takes its time to describe a file.
type slowFS struct {
	*memfs.FS
	delay time.Duration
}

func (f slowFS) Stat(ctx context.Context, name string) (os.FileInfo, error) {
	time.Sleep(f.delay)
	return f.FS.Stat(ctx, name)
}

func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: slowFS{memfs.New(0), time.Hour}})
		config.IdleTimeout = time.Minute
		s := newServer(t, config)
		client := mustConnect(t, s)
		channel, err := sftp(client)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			client.Wait()
			close(ended)
		}()
		isEnded := func() bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		// A little traffic now and then keeps it open, as does a running request.
		for range 10 {
			time.Sleep(40 * time.Second)
			channel.Write(wire.PathRequest{Type: wire.TypeRealpath, Path: "/"}.Append(nil, 1))
			if _, err := receive(channel); err != nil {
				t.Fatal(err)
			}
		}
		channel.Write(wire.PathRequest{Type: wire.TypeStat, Path: "/"}.Append(nil, 2))
		if _, err := receive(channel); err != nil {
			t.Fatalf("a slow request was not waited for: %v", err)
		}
		time.Sleep(50 * time.Second)
		if isEnded() {
			t.Error("ended too early")
		}
		time.Sleep(50 * time.Second)
		if !isEnded() {
			t.Error("an idle connection stays")
		}
	})
}

// TestSlowFileOfSCPIsWaitedFor: what scp waits for at the server's storage does not make its
// connection idle; waiting for the client does.
func TestSlowFileOfSCPIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: slowFS{memfs.New(0), time.Hour}})
		config.IdleTimeout = time.Minute
		client := mustConnect(t, newServer(t, config))
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		session.Stdin = strings.NewReader("C0644 1 f\nx\x00")
		if err := session.Run("scp -t /f"); err != nil {
			t.Errorf("a file that took an hour: %v", err)
		}
		if session, err = client.NewSession(); err != nil {
			t.Fatal(err)
		}
		silent, stdin := io.Pipe()
		defer stdin.Close()
		session.Stdin = silent
		began := time.Now()
		if err := session.Run("scp -t /f"); err == nil {
			t.Error("a silent client has sent a file")
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+3*time.Minute {
			t.Errorf("a silent client stayed for %v", took)
		}
	})
}

// TestLittleBandwidthIsNotIdle: a transfer whose bandwidth is limited goes on although less than
// the client's window moves in the time that makes a connection idle.
func TestLittleBandwidthIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := onlyPassword(&Access{FS: memfs.New(0), Bandwidth: NewRateLimit(EachWay(1 << 10))})
		config.IdleTimeout = 10 * time.Second
		client := mustConnect(t, newServer(t, config))
		for _, one := range [][2]string{
			{"scp -t /f", "C0644 4000000 f\n" + strings.Repeat("x", 4_000_000) + "\x00"},
			{"scp -f /f", strings.Repeat("\x00", 10)}} {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			session.Stdin = strings.NewReader(one[1])
			if err := session.Run(one[0]); err != nil {
				t.Errorf("%s: %v", one[0], err)
			}
		}
	})
}

func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := Rates{Send: 50 << 10, Receive: 100 << 10}
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0), Bandwidth: NewRateLimit(rates)}))
		client := mustConnect(t, s)
		for _, direction := range []string{"up", "down"} {
			session, err := client.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			const size = 1 << 20
			began := time.Now()
			rate := rates.Send
			if direction == "up" {
				rate = rates.Receive
				session.Stdin = strings.NewReader(fmt.Sprintf("C0644 %d f\n", size) +
					strings.Repeat("x", size) + "\x00")
				err = session.Run("scp -t /f")
			} else {
				session.Stdin = strings.NewReader(strings.Repeat("\x00", 10))
				err = session.Run("scp -f /f")
			}
			if err != nil {
				t.Errorf("%s: %v", direction, err)
			}
			took := time.Since(began).Seconds()
			if want := float64(size) / float64(rate); took < 0.9*want || took > 1.2*want {
				t.Errorf("%s: %.1f s, want %.1f", direction, took, want)
			}
		}
	})
}

// TestIdleByTheMonotonicClock: a jump of the wall clock neither ends connections nor keeps them.
func TestIdleByTheMonotonicClock(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	conn := &connection{Conn: ours}
	go theirs.Write([]byte("x"))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conn.activity.Begin()
	conn.activity.End()
	for what, last := range map[string]time.Time{"byte": conn.lastMoved(),
		"request": conn.activity.Last()} {
		if since := time.Since(last); !strings.Contains(last.String(), " m=") || since > time.Minute {
			t.Errorf("the last %s was at %v", what, last)
		}
	}
	var none server.Activity
	if !none.Last().IsZero() {
		t.Errorf("a request that never was ended at %v", none.Last())
	}
}

// TestOpenFilesOfAUser: a user's sessions together have only so many files and directories open
// that others still get descriptors, and closing one, or its session, makes room.
func TestOpenFilesOfAUser(t *testing.T) {
	files := memfs.New(0)
	s := newServer(t, Config{Password: func(ssh.ConnMetadata, string) (*Access, error) {
		return &Access{FS: files}, nil
	}})
	ask := func(channel ssh.Channel, packet []byte) []byte {
		t.Helper()
		if _, err := channel.Write(packet); err != nil {
			t.Fatal(err)
		}
		answer, err := receive(channel)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	session := func(client *ssh.Client) ssh.Channel {
		t.Helper()
		channel, err := sftp(client)
		if err != nil {
			t.Fatal(err)
		}
		return channel
	}
	open := func(channel ssh.Channel) (handle string, ok bool) {
		t.Helper()
		answer := ask(channel, wire.PathRequest{Type: wire.TypeOpendir, Path: "/"}.Append(nil, 1))
		if wire.Type(answer[0]) != wire.TypeHandle {
			return "", false
		}
		r := wire.NewReader(answer[5:])
		return r.String(), true
	}
	client := mustConnect(t, s)
	var all []ssh.Channel
	var holder ssh.Channel // of the last
	opened, last := 0, ""
	for full := false; !full; {
		all = append(all, session(client))
		for range min(1024, mostOpen(userMost)/2) { // no more than one session may have
			handle, ok := open(all[len(all)-1])
			if full = !ok; full {
				break
			}
			opened, last, holder = opened+1, handle, all[len(all)-1]
		}
	}
	if opened != mostOpen(userMost) || len(all) < 2 {
		t.Errorf("%d are open in %d sessions, not %d", opened, len(all), mostOpen(userMost))
	}
	other, err := connectAs(s, "other", ssh.Password("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, ok := open(session(other)); !ok {
		t.Error("another user cannot open anything")
	}
	ask(holder, wire.HandleRequest{Type: wire.TypeClose, Handle: []byte(last)}.Append(nil, 2))
	if _, ok := open(holder); !ok {
		t.Error("there is no room for one in place of one that was closed")
	}
	all[0].Close()
	testenv.Until(t, "there is room again", func() bool {
		_, ok := open(holder)
		return ok
	})
}

// TestOpenFilesFollowSessions: a user who may have more sessions from now on may have more files
// open, too, although the user is never without a connection.
func TestOpenFilesFollowSessions(t *testing.T) {
	u := users{all: map[string]*usage{}}
	for _, most := range []int{2, 6, 4} {
		if got := u.enter("alice", most).files.Most(); got != mostOpen(most) {
			t.Errorf("with %d sessions %d files, not %d", most, got, mostOpen(most))
		}
	}
}
