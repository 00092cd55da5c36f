//go:build unix

package dial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// chain makes the configuration for servers of which each is reached through the last.
func chain(t testing.TB, servers ...*opensshd.Server) string {
	var text strings.Builder
	for i, s := range servers {
		text.WriteString(s.ClientBlock())
		if i > 0 {
			fmt.Fprintf(&text, "\tProxyJump %s\n", servers[i-1].Alias)
		}
	}
	return writeFile(t, filepath.Join(t.TempDir(), "chain"), text.String())
}

func TestJump(t *testing.T) {
	a := opensshd.Start(t, opensshd.Options{Alias: "a"})
	b := opensshd.Start(t, opensshd.Options{Alias: "b"})
	c := opensshd.Start(t, opensshd.Options{Alias: "c"})
	conf := chain(t, a, b, c)
	conn := connect(t, Target{Host: "c"}, &Config{ConfigFile: conf})
	open(t, conn)
	open(t, conn)
	for _, s := range []*opensshd.Server{a, b, c} {
		if n := strings.Count(s.Log(), "Accepted publickey"); n != 1 {
			t.Errorf("%s saw %d logins", s.Alias, n)
		}
	}
	conn.Close()
	none(t)
	flat := writeFile(t, filepath.Join(t.TempDir(), "flat"),
		a.ClientBlock()+b.ClientBlock()+c.ClientBlock())
	conn = connect(t, Target{Host: "c"},
		&Config{ConfigFile: flat, Jump: fmt.Sprintf("a,%s@b:%d", b.User, b.Port)})
	open(t, conn)
	conn.Close()

	// Which hop failed is named.
	writeFile(t, b.KnownHosts, "")
	err := dialError(t, Target{Host: "c"}, &Config{ConfigFile: conf})
	var jump *JumpError
	var key *HostKeyError
	if !errors.As(err, &jump) || jump.Hop != "b" || !errors.As(err, &key) ||
		!strings.HasPrefix(err.Error(), "c: jump host b: the host key of ") {
		t.Errorf("a hop with an unknown key: %v", err)
	}
	nobody := testenv.RefusedPort(t)
	err = dialError(t, Target{Host: "127.0.0.1", Port: nobody},
		&Config{ConfigFile: conf, Jump: "a"})
	if !errors.As(err, &jump) || jump.Hop != "a" ||
		!strings.Contains(err.Error(), fmt.Sprintf("jump host a: cannot reach 127.0.0.1:%d",
			nobody)) {
		t.Errorf("a target that refuses its jump host: %v", err)
	}
	err = dialError(t, Target{Host: "behind"},
		&Config{ConfigFile: "none", Jump: fmt.Sprintf("127.0.0.1:%d", nobody)})
	if !errors.As(err, &jump) || !strings.Contains(err.Error(),
		"jump host 127.0.0.1: the connection to ") {
		t.Errorf("a jump host that refuses: %v", err)
	}
	none(t)
}

// TestSilentBehindJump: a server that says nothing, behind a jump host, ends with the
// context and with ConnectTimeout.
func TestSilentBehindJump(t *testing.T) {
	a := opensshd.Start(t, opensshd.Options{Alias: "a"})
	t.Cleanup(func() { none(t) })
	accepted := make(chan net.Conn, 10)
	port := testenv.Listen(t, func(c net.Conn) { accepted <- c }).Port
	target, config := Target{Host: "127.0.0.1", Port: port}, &Config{ConfigFile: a.ConfigFile, Jump: "a"}
	d, err := New(testContext(t), target, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	go func() {
		defer (<-accepted).Close()
		cancel()
	}()
	if _, err := d.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	config.Options = []string{"ConnectTimeout=5"} // enough for the jump host at any load
	if err := dialError(t, target, config); !errors.Is(err, os.ErrDeadlineExceeded) ||
		!strings.Contains(err.Error(), "no answer within 5s") {
		t.Errorf("timed out: %v", err)
	}
	(<-accepted).Close()
}

// TestSilentJump: a jump host that does not say whether it can reach the next host.
func TestSilentJump(t *testing.T) {
	for option, within := range map[string]time.Duration{"ConnectTimeout=7": 7 * time.Second,
		"ConnectTimeout=none": jumpStall} {
		synctest.Test(t, func(t *testing.T) {
			srv := newTestServer(t)
			srv.NoClientAuth = true
			leave := make(chan struct{})
			srv.late = func() { <-leave }
			d := srv.dialer(t, &Config{Options: []string{option}})
			d.hop = srv.dialer(t, &Config{})
			began := time.Now()
			_, err := d.Dial(t.Context())
			var jump *JumpError
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &jump) ||
				time.Since(began) != within {
				t.Errorf("%s: %v after %v", option, err, time.Since(began))
			}
			close(leave)
		})
	}
}

// TestSilentHop: the host's ConnectTimeout ends the wait for a jump host, too, also for the first
// of several, as it does with ssh. A jump host's own counts if it is shorter.
func TestSilentHop(t *testing.T) {
	for _, test := range []struct{ hop, host string }{{"none", "7"}, {"60", "7"}, {"7", "60"},
		{"7", "none"}} {
		config := writeFile(t, filepath.Join(t.TempDir(), "c"), "Host j\n ConnectTimeout "+
			test.hop+"\nHost h\n ConnectTimeout "+test.host+"\n")
		synctest.Test(t, func(t *testing.T) {
			d, err := New(t.Context(), Target{Host: "h"}, &Config{ConfigFile: config,
				Jump: "j,k", Env: withoutSSH(t.TempDir())})
			if err != nil {
				t.Fatal(err)
			}
			d.hop.hop.tcp = func(context.Context) (net.Conn, error) {
				ours, _ := socketPair()
				return ours, nil
			}
			began := time.Now()
			_, err = d.Dial(t.Context())
			if want := "h: jump host j: no answer within 7s while connecting"; err == nil ||
				!strings.HasSuffix(err.Error(), want) || time.Since(began) != 7*time.Second {
				t.Errorf("%v: %v after %v; want %s", test, err, time.Since(began), want)
			}
		})
	}
}

func TestJumpLoop(t *testing.T) {
	for _, env := range [][]string{nil, withoutSSH(t.TempDir())} {
		_, err := New(testContext(t), Target{Host: "x"},
			&Config{ConfigFile: writeFile(t, filepath.Join(t.TempDir(), "c"),
				"Host *\n ProxyJump y\n"), Env: env})
		if err == nil || !strings.Contains(err.Error(), "loop") &&
			!strings.Contains(err.Error(), "through itself") {
			t.Errorf("a jump host that jumps through itself: %v", err)
		}
	}
}

func TestParseHop(t *testing.T) {
	for in, want := range map[string]Target{
		"h": {Host: "h"}, "u@h": {User: "u", Host: "h"}, "u@h:22": {User: "u", Host: "h",
			Port: 22}, "[::1]:5": {Host: "::1", Port: 5},
		"::1": {Host: "::1"}, "[::1]": {Host: "::1"}, "ssh://u@h:7": {User: "u", Host: "h",
			Port: 7},
	} {
		if got, err := parseHop(in); err != nil || got != want {
			t.Errorf("parseHop(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "-x", "h:0", "h:x", "a b"} {
		if got, err := parseHop(in); err == nil {
			t.Errorf("parseHop(%q) = %+v", in, got)
		}
	}
}

// alive reports whether a process exists. A zombie does.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestProxyCommand(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	proxy := fmt.Sprintf("ProxyCommand=%s -F %s -W %%h:%%p %s", opensshd.Find(t, "ssh"),
		srv.ConfigFile, srv.Alias)
	conn := connect(t, Target{Host: srv.Alias},
		&Config{ConfigFile: srv.ConfigFile, Options: []string{proxy}})
	open(t, conn)
	pid := conn.route.proxy.cmd.Process.Pid
	if !alive(pid) {
		t.Fatal("the command is not there")
	}
	conn.Close()
	if alive(pid) {
		t.Error("the command outlived its connection")
	}
	none(t)

	for _, c := range []struct{ command, says string }{
		{"echo some reason >&2; exit 3", "the ProxyCommand ended (exit status 3): some reason"},
		{"/nonexistent/command", "the ProxyCommand ended (exit status 127)"},
		{"echo hello; exit 0", `does not speak SSH; it said: "hello"`},
	} {
		err := dialError(t, Target{Host: srv.Alias},
			&Config{ConfigFile: srv.ConfigFile,
				Options: []string{"ProxyCommand=sh -c '" + c.command + "'"}})
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.command, err)
		}
	}
	// One that ignores its end is killed, and Close still takes bounded time.
	ctx, cancel := context.WithCancel(testContext(t))
	d, err := New(ctx, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
		Options: []string{"ProxyCommand=sh -c 'trap \"\" TERM HUP PIPE; echo up >&2; while :; do sleep 0.1; done'"},
		Logger:  slog.New(&lineHandler{on: "up", do: func() { cancel() }})})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := d.Dial(ctx); !errors.Is(err, context.Canceled) ||
		time.Since(began) > 20*time.Second {
		t.Errorf("a stubborn command: %v after %v", err, time.Since(began))
	}
	none(t)
}

// TestProxyCommandSpeaks: what the command says is shown, since it may be for a person, but not for
// each connection.
func TestProxyCommandSpeaks(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	var shown bytes.Buffer
	d, err := New(testContext(t), Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
		Options: []string{fmt.Sprintf("ProxyCommand=sh -c 'echo visit %%n >&2; exec %s -F %s -W %%h:%%p %s'",
			opensshd.Find(t, "ssh"), srv.ConfigFile, srv.Alias)},
		Logger: slog.New(slog.NewTextHandler(&shown, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	dialTwice(t, d)
	if n := strings.Count(shown.String(), "ProxyCommand: visit "+srv.Alias); n != 1 {
		t.Errorf("it was shown %d times in %q", n, shown.String())
	}
}

// TestProxyCommandWithoutInterrupts: where they are to be ignored, the command of a jump host
// ignores them, too.
func TestProxyCommandWithoutInterrupts(t *testing.T) {
	conf := writeFile(t, filepath.Join(t.TempDir(), "c"), "Host behind\n\tProxyJump jump\n"+
		"Host jump\n\tProxyCommand sh -c 'kill -INT $$; echo still here >&2; exit 3'\n")
	for _, host := range []string{"jump", "behind"} {
		err := dialError(t, Target{Host: host}, &Config{ConfigFile: conf, IgnoreInterrupts: true})
		if !strings.Contains(err.Error(), "(exit status 3): still here") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestProxyCommandWithoutKnownHosts: the login ends before it begins, while the command has said
// something.
func TestProxyCommandWithoutKnownHosts(t *testing.T) {
	dir := t.TempDir()
	err := dialError(t, Target{Host: "h"}, &Config{ConfigFile: "none", Options: []string{
		"UserKnownHostsFile=" + dir, "ProxyCommand=echo hello"}})
	if !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

// A lineHandler calls do when a message that contains on is logged.
type lineHandler struct {
	on string
	do func()
}

func (h *lineHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.on) {
		h.do()
	}
	return nil
}
func (h *lineHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *lineHandler) WithGroup(string) slog.Handler      { return h }

func TestUnreachable(t *testing.T) {
	port := testenv.RefusedPort(t)
	err := dialError(t, Target{User: "me", Host: "127.0.0.1", Port: port},
		&Config{ConfigFile: "none"})
	if !errors.Is(err, syscall.ECONNREFUSED) ||
		err.Error() != fmt.Sprintf("me@127.0.0.1: the connection to 127.0.0.1:%d was refused",
			port) {
		t.Errorf("a refused connection: %v", err)
	}
	err = dialError(t, Target{Host: "no-such-host.invalid"},
		&Config{ConfigFile: "none", Options: []string{"ConnectTimeout=10"}})
	var dns *net.DNSError
	if !errors.As(err, &dns) || !strings.HasPrefix(err.Error(),
		"no-such-host.invalid: the name no-such-host.invalid ") {
		t.Errorf("a name that does not resolve: %v", err)
	}
	none(t)
}

func TestNotSSH(t *testing.T) {
	for _, c := range []struct{ answer, says string }{
		{"HTTP/1.0 400 Bad Request\r\nServer: x\r\n\r\n",
			`does not speak SSH; it said: "HTTP/1.0 400 Bad Request"`},
		{"Exceeded MaxStartups\r\n",
			`is too busy to let anybody log in; it said: "Exceeded MaxStartups"`},
		{"Not allowed at this time\r\n",
			`after failed logins; it said: "Not allowed at this time"`},
		{"", "closed the connection before it said anything"},
		{"\x1b[2J\x00evil", `"?[2J?evil"`},
	} {
		var err error
		synctest.Test(t, func(t *testing.T) {
			d := newTestServer(t).dialer(t, new(Config))
			d.tcp = hangingUp(t, 1<<10, c.answer, d.tcp)
			_, err = d.Dial(t.Context())
		})
		var not *NotSSHError
		if !errors.As(err, &not) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.answer, err)
		}
	}
}

// hangingUp returns a way to a server that says something and hangs up, a number of times.
func hangingUp(t *testing.T, times int, words string,
	then func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		if times--; times < 0 {
			return then(ctx)
		}
		ours, theirs := socketPair()
		go func() {
			theirs.Read(make([]byte, 1<<10))
			io.WriteString(theirs, words)
			theirs.Close()
		}()
		return ours, nil
	}
}

// TestServerDropsConnections: one that has too much to do, or restarts, is tried again a few times.
func TestServerDropsConnections(t *testing.T) {
	for _, c := range []struct {
		name, words string
		times       int
		ok          bool
		most        time.Duration
	}{
		{"once", "", 1, true, time.Second},
		{"in words", "Exceeded MaxStartups\r\n", 3, true, 7 * time.Second},
		{"after its version", "SSH-2.0-OpenSSH_9.9\r\n", 2, true, 3 * time.Second},
		{"all", "", 4, false, 7 * time.Second},
		{"on purpose", "Not allowed at this time\r\n", 1, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newTestServer(t)
				key := filepath.Join(t.TempDir(), "key")
				takesKeys(srv, writeKey(t, key, ""))
				d := srv.dialer(t, &Config{Identities: []string{key}})
				d.tcp = hangingUp(t, c.times, c.words, d.tcp)
				began := time.Now()
				conn, err := d.Dial(t.Context())
				if took := time.Since(began); (err == nil) != c.ok || took > c.most ||
					took < c.most/2 {
					t.Errorf("%v after %v", err, took)
				}
				if err == nil {
					conn.Close()
				}
			})
		})
	}
	t.Run("until it is stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newTestServer(t).dialer(t, new(Config))
			d.tcp = hangingUp(t, 9, "", d.tcp)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := d.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// TestServerDropsConnectionsOfAJumpHost: as from a direct one, but nobody is asked twice for the
// jump host, and it is not asked again itself.
func TestServerDropsConnectionsOfAJumpHost(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   bool // the jump host asks for a code at each login
		leaves bool // the jump host takes nobody after its first login
		times  int
		ok     bool
		logins int // to the jump host
	}{
		{"once", false, false, 1, true, 2},
		{"always", false, false, 9, false, 4},
		{"a person for the jump host", true, false, 1, false, 1},
		{"a jump host that fails", false, true, 1, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far := newTestServer(t)
				far.NoClientAuth = true
				d := far.dialer(t, new(Config))
				reach := hangingUp(t, c.times, "", d.tcp)

				near := newTestServer(t)
				near.session = func(ch ssh.Channel, requests <-chan *ssh.Request) {
					go ssh.DiscardRequests(requests)
					conn, err := reach(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					go io.Copy(conn, ch)
					io.Copy(ch, conn)
					ch.Close()
				}
				asked, logins := 0, 0
				near.NoClientAuth = !c.code
				near.NoClientAuthCallback = func(ssh.ConnMetadata) (*ssh.Permissions, error) {
					if logins++; c.leaves && logins > 1 {
						return nil, errors.New("no more")
					}
					return nil, nil
				}
				near.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata,
					ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
					logins++
					_, err := ask("", "", []string{"Code: "}, []bool{true})
					return nil, err
				}
				d.hop = near.dialer(t, &Config{Prompter: PrompterFunc(
					func(context.Context, Prompt) (string, error) { asked++; return "1", nil })})
				conn, err := d.Dial(t.Context())
				if (err == nil) != c.ok || logins != c.logins || asked > 1 {
					t.Errorf("%v; %d logins to the jump host, and %d questions", err, logins, asked)
				}
				if err == nil {
					conn.Close()
				}
			})
		})
	}
}

// TestBindAddress: the connection leaves from there, and whoever gives up does not wait for the name
// server that is asked for it.
func TestBindAddress(t *testing.T) {
	listening := testenv.Listen(t, func(net.Conn) {})
	address := "127.0.0.1"
	if runtime.GOOS == "linux" {
		address = "127.0.0.2"
	}
	d := &Dialer{s: &settings{network: "tcp4", bindAddress: address}, log: new(Config).logger()}
	conn, err := d.connectTo(t.Context(), listening.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if from := conn.LocalAddr().(*net.TCPAddr).IP.String(); from != address {
		t.Errorf("the connection comes from %s, want %s", from, address)
	}
	d.s.network, d.s.bindAddress = "tcp6", "fe80::1%no-such-interface"
	_, err = d.connectTo(t.Context(), "[::1]:1")
	if op := new(net.OpError); !errors.As(err, &op) || op.Source == nil ||
		!strings.Contains(op.Source.String(), d.s.bindAddress) {
		t.Errorf("an address of one interface: %v", err)
	}
	d.s.bindAddress = "no-such-host.invalid"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.connectTo(ctx, listening.String()); !errors.Is(err, context.Canceled) {
		t.Errorf("a name, when nobody waits any more: %v", err)
	}
}

// TestBindInterface: the connection leaves from an address of the interface, one of the host's kind.
func TestBindInterface(t *testing.T) {
	listening := testenv.Listen(t, func(net.Conn) {})
	six, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.Accept(t, six, func(net.Conn) {})
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		has := func(is func(net.IP) bool) bool {
			return slices.ContainsFunc(addresses, func(a net.Addr) bool {
				n, ok := a.(*net.IPNet)
				return ok && is(n.IP)
			})
		}
		loopback := i.Flags&net.FlagLoopback != 0 // only Linux goes there from another interface
		if err != nil || i.Flags&net.FlagUp == 0 || !loopback && runtime.GOOS != "linux" ||
			!has(func(ip net.IP) bool { return ip.To4() != nil }) {
			continue
		}
		tried++
		d := &Dialer{s: &settings{network: "tcp", bindInterface: i.Name, bindAddress: "127.0.0.3"},
			log: new(Config).logger()}
		for _, to := range []net.Addr{listening, six.Addr()} {
			if to != listening && !has(func(ip net.IP) bool { return ip.To4() == nil }) {
				continue
			}
			conn, err := d.connectTo(t.Context(), to.String())
			if err != nil {
				t.Fatal(err)
			}
			if from := conn.LocalAddr().(*net.TCPAddr).IP; !has(from.Equal) {
				t.Errorf("by %s the connection comes from %s", i.Name, from)
			}
			conn.Close()
		}
	}
	if tried == 0 {
		t.Error("no interface has an address")
	}
	d := &Dialer{s: &settings{network: "tcp", bindInterface: "nosuch"}, log: new(Config).logger()}
	if _, err := d.connectTo(t.Context(), listening.String()); err == nil ||
		!strings.Contains(err.Error(), "BindInterface nosuch: ") {
		t.Errorf("an interface that is not there: %v", err)
	}
}
