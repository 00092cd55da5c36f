//go:build unix

package dial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	own "github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// takesKeys has a server take some keys, and note each attempt with its key.
func takesKeys(s *testServer, good ...ssh.PublicKey) {
	s.PublicKeyCallback = func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if !slices.ContainsFunc(good, func(g ssh.PublicKey) bool { return sameKey(g, k) }) {
			return nil, errors.New("unknown")
		}
		return nil, nil
	}
}

// logsIn logs in once with a Dialer of its own, and returns what the server refused on the way.
func logsIn(t *testing.T, srv *testServer, c Config) []string {
	t.Helper()
	c.Options = slices.Clone(c.Options)
	conn := dialed(t, srv.dialer(t, &c))
	s := opened(t, conn)
	greet(t, s)
	return srv.failures()
}

func TestTheOnlyKeyIsSignedWithAtOnce(t *testing.T) {
	t.Parallel()
	srv := newTestServer(t)
	dir := t.TempDir()
	right, other, locked := filepath.Join(dir, "right"), filepath.Join(dir, "other"),
		filepath.Join(dir, "locked")
	takesKeys(srv, writeKey(t, right, ""), writeKey(t, locked, "phrase"))
	writeKey(t, other, "")
	for _, c := range []struct {
		name    string
		config  Config
		refused []string
	}{
		{"the only key", Config{Identities: []string{right}}, nil},
		{"of two", Config{Identities: []string{right, other}}, []string{"none"}},
		{"of two, with IdentitiesOnly", Config{Identities: []string{right, other},
			Options: []string{"IdentitiesOnly=yes"}}, nil},
		{"the second, with IdentitiesOnly", Config{Identities: []string{other, right},
			Options: []string{"IdentitiesOnly=yes"}}, []string{"publickey"}},
		{"a locked key", Config{Identities: []string{locked},
			Prompter: &script{answers: []string{"phrase"}}}, []string{"none"}},
		{"password first", Config{Identities: []string{right},
			Options: []string{"PreferredAuthentications=password,publickey"}}, []string{"none"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if f := logsIn(t, srv, c.config); !slices.Equal(f, c.refused) {
				t.Errorf("refused were %v, want %v", f, c.refused)
			}
		})
	}
}

// TestRememberedKey: what worked is signed with at once by the next run, an agent's keys too; and
// when it works no more it costs what offering it would have.
func TestRememberedKey(t *testing.T) {
	srv := newTestServer(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	keyA, keyB := writeKey(t, a, ""), writeKey(t, b, "")
	writeKey(t, c, "")
	config := Config{Identities: []string{a, c, b}, StateDir: state}
	login := func(step string, want ...string) {
		t.Helper()
		if f := logsIn(t, srv, config); !slices.Equal(f, want) {
			t.Errorf("%s: refused were %v, want %v", step, f, want)
		}
	}
	takesKeys(srv, keyB)
	login("first", "none", "publickey", "publickey")
	login("b is remembered")
	takesKeys(srv, keyA)
	login("b is refused", "publickey")
	login("a is remembered")
	config.Identities = nil
	config.Options = []string{"IdentityAgent=" + startAgent(t, c, a)}
	login("a is in the agent")
	os.Remove(filepath.Join(state, "logins"))
	login("an agent's key is not used unasked", "none", "publickey")
	login("a is remembered, in the agent")

	file := filepath.Join(state, "logins")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), ssh.FingerprintSHA256(keyA)) ||
		strings.Count(string(text), "\n") != 2 {
		t.Errorf("remembered is %q", text)
	}
	for path, want := range map[string]os.FileMode{state: 0o700, file: 0o600} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	takesKeys(srv)
	srv.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		return nil, nil
	}
	config.Prompter = &script{answers: []string{"secret"}}
	login("only a password is taken", "publickey", "publickey")
	if text, _ := os.ReadFile(file); strings.Contains(string(text), "SHA256") {
		t.Errorf("a key that was refused is remembered: %q", text)
	}
	config.Prompter, srv.PasswordCallback = nil, nil
	takesKeys(srv, keyA)
	login("a is taken again", "none", "publickey")
	takesKeys(srv)
	if _, err := srv.dialer(t, &config).Dial(testContext(t)); err == nil {
		t.Fatal("it logged in without a key that is taken")
	}
	if text, _ := os.ReadFile(file); strings.Contains(string(text), "SHA256") {
		t.Errorf("a key that opens nothing is remembered: %q", text)
	}
}

// TestRememberedKeyCostsNoLogin: a server allows so few attempts that the key that ssh would have
// offered in time comes too late after one that worked before. However the server hangs up, the
// login is tried again as ssh does.
func TestRememberedKeyCostsNoLogin(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	writeKey(t, a, "")
	keyB, keyC := writeKey(t, b, ""), writeKey(t, c, "")
	for name, hangUp := range map[string]error{"says why": nil, "hangs up": io.EOF,
		"hangs up within a packet": io.ErrUnexpectedEOF,
		"resets":                   &net.OpError{Op: "read", Err: syscall.ECONNRESET}} {
		t.Run(name, func(t *testing.T) {
			srv := newTestServer(t)
			config := Config{Identities: []string{a, b, c}, StateDir: t.TempDir()}
			takesKeys(srv, keyC)
			logsIn(t, srv, config)
			takesKeys(srv, keyB)
			srv.failures()
			srv.MaxAuthTries = 2
			d := srv.dialer(t, &config)
			inner := d.tcp
			d.tcp = func(ctx context.Context) (net.Conn, error) {
				conn, err := inner(ctx)
				if d.tcp = inner; err != nil {
					return nil, err
				}
				return endingConn{conn, func() error {
					srv.mu.Lock()
					defer srv.mu.Unlock()
					if len(srv.failed) < 2 {
						return nil
					}
					return hangUp
				}}, nil
			}
			conn := dialed(t, d)
			conn.Close()
		})
	}
}

// TestUnsupportedSignature: an RSA key signs at once with an algorithm that the server turns out
// not to support. It is offered again, on a new connection if the server hangs up.
func TestUnsupportedSignature(t *testing.T) {
	t.Parallel()
	file := opensshd.Keygen(t, filepath.Join(t.TempDir(), "rsa"), "-t", "rsa", "-b", "2048")
	key, err := readPublic(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for tries := 1; tries <= 2; tries++ {
		srv := newTestServer(t)
		srv.MaxAuthTries = tries
		srv.PublicKeyAuthAlgorithms = []string{ssh.KeyAlgoRSASHA256}
		takesKeys(srv, key)
		refused := logsIn(t, srv, Config{Identities: []string{file}})
		refused = slices.DeleteFunc(refused, func(m string) bool { return m == "none" })
		if want := []string{"publickey"}; !slices.Equal(refused, want) || srv.conns != 3-tries {
			t.Errorf("%d tries: refused were %v on %d connections", tries, refused, srv.conns)
		}
		dialTwice(t, srv.dialer(t, &Config{Identities: []string{file}}))
	}
}

// TestServerIsNotBlamedForAKey: sshd hangs up because of too many keys. That says nothing about
// whether it takes a flight, and it does.
func TestServerIsNotBlamedForAKey(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{Config: []string{"MaxAuthTries 2"}})
	dir := t.TempDir()
	config := &Config{ConfigFile: srv.ConfigFile, StateDir: filepath.Join(dir, "state")}
	a, b, remembered := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	writeKey(t, a, "")
	config.Identities = []string{a, remembered}
	writeFile(t, srv.AuthorizedKeys, authorizedLine(writeKey(t, remembered, ""))+"\n")
	connect(t, Target{Host: srv.Alias}, config).Close()
	config.Identities = []string{a, b, remembered}
	writeFile(t, srv.AuthorizedKeys, authorizedLine(writeKey(t, b, ""))+"\n")
	c := connect(t, Target{Host: srv.Alias}, config)
	open(t, c)
	if !strings.Contains(srv.Log(), "Too many authentication failures") {
		t.Fatal("sshd did not hang up")
	}
	if c.d.memory.refuses(c.HostKey()) {
		t.Error("the server is remembered as one that takes no flight")
	}
}

// endingConn ends when end says why.
type endingConn struct {
	net.Conn
	end func() error
}

func (e endingConn) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if ended := e.end(); ended != nil {
		return 0, ended
	}
	return n, err
}

// TestRememberedKeyIsOfItsUser: and of the server's key.
func TestRememberedKeyIsOfItsUser(t *testing.T) {
	srv, other := newTestServer(t), newTestServer(t)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	writeKey(t, a, "")
	good := writeKey(t, b, "")
	takesKeys(srv, good)
	takesKeys(other, good)
	config := Config{Identities: []string{a, b}, StateDir: dir}
	logsIn(t, srv, config)
	for name, f := range map[string]func() []string{
		"another server": func() []string { return logsIn(t, other, config) },
		"another port": func() []string {
			c := config
			c.Options = []string{"Port=23", "HostKeyAlias=h"}
			return logsIn(t, srv, c)
		},
	} {
		if got := f(); !slices.Equal(got, []string{"none", "publickey"}) {
			t.Errorf("%s: refused were %v", name, got)
		}
	}
	if got := logsIn(t, srv, config); len(got) != 0 {
		t.Errorf("refused were %v", got)
	}
}

// TestServerThatTakesNoFlight: one that looks like OpenSSH and is not costs a second connection,
// once a week, whether it hangs up on what came early or drops it, as x/crypto/ssh does.
func TestServerThatTakesNoFlight(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	public := writeKey(t, key, "")
	for _, c := range []struct {
		name, version string
		hangUps       int
		conns         []int
		took          time.Duration // the first login
		later         int
	}{
		{"drops it", "SSH-2.0-OpenSSH_9.9", 0, []int{2, 1, 1}, flightLimit, 2},
		{"hangs up", "SSH-2.0-OpenSSH_9.9", 1, []int{2, 1, 1}, 0, 2},
		{"Windows", "SSH-2.0-OpenSSH_for_Windows_9.5", 0, []int{1, 1}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				srv := newTestServer(t)
				takesKeys(srv, public)
				srv.ServerVersion, srv.hangUps, srv.late = c.version, c.hangUps, synctest.Wait
				for i, want := range append(c.conns, c.later) {
					if i == len(c.conns) {
						time.Sleep(stepwiseFor)
					}
					srv.conns = 0
					began := time.Now()
					logsIn(t, srv, Config{Identities: []string{key}, StateDir: state})
					if took := time.Since(began); srv.conns != want ||
						i == 0 && (took < c.took || took > c.took+time.Second) ||
						want == 1 && took > time.Second {
						t.Errorf("login %d took %d connections, want %d, and %v", i+1, srv.conns,
							want, took)
					}
				}
			})
		})
	}
}

// TestCutLinkIsNoRefusal: a link that is cut right after the flight left costs a second login, but
// says nothing about the server.
func TestCutLinkIsNoRefusal(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	public := writeKey(t, key, "")
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET},
		&net.OpError{Op: "read", Err: syscall.ETIMEDOUT}} {
		for where, packets := range map[string]int{"before NEWKEYS": 2, "after it": 3} {
			t.Run(cut.Error()+" "+where, func(t *testing.T) {
				srv := newTestServer(t)
				srv.ServerVersion = "SSH-2.0-OpenSSH_9.9"
				takesKeys(srv, public)
				d := srv.dialer(t, &Config{Identities: []string{key}, StateDir: t.TempDir()})
				whole := d.tcp
				d.tcp = func(ctx context.Context) (net.Conn, error) {
					conn, err := whole(ctx)
					d.tcp = whole
					return newCutConn(conn, packets, cut), err
				}
				dialed(t, d).Close()
				if srv.conns != 2 || d.memory.refuses(srv.key.PublicKey()) {
					t.Errorf("%d connections, and it refuses flights: %v", srv.conns,
						d.memory.refuses(srv.key.PublicKey()))
				}
			})
		}
	}
}

// cutConn lets through some of the server's packets, which are KEXINIT, its key exchange, and
// NEWKEYS, and is cut once the client has sent its third piece: after the first for its algorithms
// and one for its key exchange, the flight.
type cutConn struct {
	net.Conn
	server  *bufio.Reader
	ready   []byte // may be read
	packets int    // come through after that
	cut     error
	writes  atomic.Int32
	flown   chan struct{}
}

func newCutConn(conn net.Conn, packets int, cut error) *cutConn {
	return &cutConn{Conn: conn, server: bufio.NewReader(conn), packets: packets, cut: cut,
		flown: make(chan struct{})}
}

func (c *cutConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.writes.Add(1) == 3 {
		close(c.flown)
	}
	return n, err
}

func (c *cutConn) Read(p []byte) (n int, err error) {
	if len(c.ready) == 0 {
		if c.ready, err = c.next(); err != nil {
			return 0, err
		}
	}
	n = copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// next returns the server's version, and then packet after packet.
func (c *cutConn) next() ([]byte, error) {
	length, err := c.server.Peek(4)
	switch {
	case err != nil:
		return nil, err
	case string(length) == "SSH-":
		return c.server.ReadBytes('\n')
	case c.packets == 0:
		<-c.flown
		return nil, c.cut
	}
	c.packets--
	packet := make([]byte, 4+binary.BigEndian.Uint32(length))
	_, err = io.ReadFull(c.server, packet)
	return packet, err
}

// TestWhatRefusesAFlight: how a login ended tells whether the server supports the flight.
func TestWhatRefusesAFlight(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	timeout := &net.OpError{Op: "read", Err: syscall.ETIMEDOUT}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.EOF, false}, // no flight
		{&own.FlightError{Err: io.EOF}, false},
		{&own.FlightError{Err: reset}, false},
		{&own.FlightError{Err: timeout}, false},
		{&own.FlightError{Err: timeout, Answered: true}, false},
		{&own.FlightError{Err: reset, Answered: true}, true},
		{&own.FlightError{Err: io.EOF, Answered: true}, true},
		{&own.FlightError{Err: &own.DisconnectError{Text: "no"}}, true},
		{&own.FlightError{Err: &own.ProtocolError{Text: "what"}}, true},
		{&own.FlightError{Err: &timeoutError{"asking for sftp", flightLimit}, Answered: true}, true},
	} {
		if got := refusesFlight(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// TestServerThatTakesItsTime: a server may need long between the login and the first channel, as
// sshd does while PAM opens the session. That is no reason to log in again.
func TestServerThatTakesItsTime(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	public := writeKey(t, key, "")
	synctest.Test(t, func(t *testing.T) {
		srv := newTestServer(t)
		config := &Config{Identities: []string{key}, StateDir: t.TempDir()}
		d := srv.dialer(t, config)
		logins := 0
		d.tcp = func(context.Context) (net.Conn, error) {
			ours, theirs := socketPair()
			slow := &slowAfterLogin{Conn: theirs}
			go func() {
				conn, err := own.Server(slow, &own.ServerConfig{Version: "SSH-2.0-OpenSSH_9.9",
					HostKeys: []ssh.Signer{srv.key}, Auth: ssh.ServerAuthCallbacks{
						PublicKeyCallback: func(_ ssh.ConnMetadata,
							k ssh.PublicKey) (*ssh.Permissions, error) {
							if !sameKey(k, public) {
								return nil, errors.New("unknown")
							}
							logins++
							slow.armed = true
							return nil, nil
						}}})
				if err != nil {
					return
				}
				defer conn.Close()
				offer, err := conn.Accept()
				if err != nil {
					return
				}
				ch, err := offer.Accept()
				if err != nil {
					return
				}
				if r, err := ch.NextRequest(); err == nil {
					r.Reply(true)
				}
				conn.Wait()
			}()
			return ours, nil
		}
		began := time.Now()
		conn := dialed(t, d)
		if _, err := conn.Open(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); logins != 1 || took < slowLogin ||
			took > slowLogin+time.Second {
			t.Errorf("it took %d logins and %v", logins, took)
		}
		if d.memory.refuses(srv.key.PublicKey()) {
			t.Error("the server is remembered as one that takes no flight")
		}
	})
}

const slowLogin = 3 * flightLimit

// slowAfterLogin is a server's connection that is held up right after it has granted a login.
type slowAfterLogin struct {
	net.Conn
	armed  bool
	writes int
}

func (s *slowAfterLogin) Write(p []byte) (int, error) {
	if s.armed {
		if s.writes++; s.writes == 2 { // the first one grants the login
			time.Sleep(slowLogin)
		}
	}
	return s.Conn.Write(p)
}

func (*slowAfterLogin) SetDeadline(time.Time) error     { return nil }
func (*slowAfterLogin) SetReadDeadline(time.Time) error { return nil }

// TestLoginIsTold: the log says how a login goes, as ssh -v does.
func TestLoginIsTold(t *testing.T) {
	t.Parallel()
	srv := opensshd.Start(t, opensshd.Options{})
	dir := t.TempDir()
	first := filepath.Join(dir, "first")
	public := ssh.FingerprintSHA256(writeKey(t, first, ""))
	for _, c := range []struct {
		name  string
		first string // the first key
		lines []string
	}{
		{"in one flight", srv.IdentityFile, []string{
			`msg="the host's key is accepted" host=` + srv.Alias + " type=ED25519",
			`msg="keys were exchanged" host=` + srv.Alias + ` server="SSH-2.0-OpenSSH_`,
			`msg="signing before the server has accepted the key"`,
			`msg="offering ED25519 SHA256:`,
			`msg="asking for sftp along with the login"`,
			`msg="sftp was opened along with the login" host=` + srv.Alias + " granted=true",
		}},
		{"step by step", first, []string{
			`msg="signing before the server has accepted the key"`,
			`msg="offering ED25519 ` + public,
			`msg="the server refused the key"`,
			`msg="the server wants more" host=` + srv.Alias + " takes=publickey",
			`msg="offering ED25519 SHA256:`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			conn := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile,
				Identities: []string{c.first}, Options: []string{"IdentitiesOnly=yes"},
				Logger: slog.New(slog.NewTextHandler(&log,
					&slog.HandlerOptions{Level: slog.LevelDebug}))})
			open(t, conn)
			conn.Close()
			rest := log.String()
			for _, line := range c.lines {
				_, after, found := strings.Cut(rest, line)
				if !found {
					t.Fatalf("no line %s in its place in\n%s", line, &log)
				}
				rest = after
			}
		})
	}
}

// TestNoSessions: a server that opens no channel says why, whoever asks when; and is a way through
// all the same.
func TestNoSessions(t *testing.T) {
	t.Parallel()
	jump := opensshd.Start(t, opensshd.Options{Alias: "jump", Config: []string{"MaxSessions 0"}})
	_, err := connect(t, Target{Host: "jump"}, &Config{ConfigFile: jump.ConfigFile}).Open(
		testContext(t))
	if err == nil || !strings.Contains(err.Error(), "the server refused another channel: open failed (") {
		t.Errorf("got %v", err)
	}
	behind := opensshd.Start(t, opensshd.Options{Alias: "behind"})
	open(t, connect(t, Target{Host: "behind"}, &Config{ConfigFile: chain(t, jump, behind)}))
}

// TestFlightWithoutSFTP: a subsystem that is refused along with the login.
func TestFlightWithoutSFTP(t *testing.T) {
	srv := opensshd.Start(t,
		opensshd.Options{Config: []string{"Subsystem sftpx /bin/true", "#Subsystem sftp"}})
	_, err := connect(t, Target{Host: srv.Alias}, &Config{ConfigFile: srv.ConfigFile}).Open(
		testContext(t))
	var sub *SubsystemError
	if !errors.As(err, &sub) || !sub.refused || !errors.Is(err, ErrNoSFTP) {
		t.Errorf("got %v", err)
	}
}

// TestSilenceAfterTheFlight: of a server that has accepted the key, and then falls silent before it
// opens the session that was requested along with it, the error says that.
func TestSilenceAfterTheFlight(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	public := writeKey(t, key, "")
	synctest.Test(t, func(t *testing.T) {
		srv := newTestServer(t)
		srv.ServerVersion = "SSH-2.0-usftp"
		takesKeys(srv, public)
		stuck := make(chan struct{})
		srv.late = func() { <-stuck }
		d := srv.dialer(t, &Config{Options: []string{"ConnectTimeout=7"}, Identities: []string{key}})
		_, err := d.Dial(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no answer within 7s while asking for sftp") {
			t.Errorf("got %v", err)
		}
		close(stuck)
	})
}
