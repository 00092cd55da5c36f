package ssh_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ssh"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// record replaces the recorded sessions. It needs OpenSSH 10, in the directory that USFTP_OPENSSH10
// names: see .ci/openssh10.
var record = flag.Bool("record", false, "record the sessions in testdata again")

// A recordedSession is what both sides sent in a session between OpenSSH and this package. Our side
// is repeatable: its keys are fixed, and its random numbers come from a seed. So when it gets the
// same bytes from OpenSSH again, it must send the same ones.
type recordedSession struct {
	name        string
	kex, cipher string
	mac         string // "" with an AEAD
	flight      bool   // the client logs in with one flight

	peer  string  // OpenSSH's version
	parts []spoke // in turn
}

type spoke struct {
	ours bool
	data []byte
}

// recordedSessions cover each key exchange, each cipher, and each MAC.
var recordedSessions = []recordedSession{
	{name: "mlkem", kex: "mlkem768x25519-sha256", cipher: "aes128-gcm@openssh.com", flight: true},
	{name: "x25519", kex: "curve25519-sha256", cipher: "aes256-gcm@openssh.com"},
	{name: "x25519-libssh", kex: "curve25519-sha256@libssh.org",
		cipher: "chacha20-poly1305@openssh.com", flight: true},
	{name: "p256", kex: "ecdh-sha2-nistp256", cipher: "aes128-ctr", mac: "hmac-sha2-256"},
	{name: "p384", kex: "ecdh-sha2-nistp384", cipher: "aes192-ctr", mac: "hmac-sha2-512",
		flight: true},
	{name: "p521", kex: "ecdh-sha2-nistp521", cipher: "aes256-ctr",
		mac: "hmac-sha2-256-etm@openssh.com"},
	{name: "group16", kex: "diffie-hellman-group16-sha512", cipher: "aes256-ctr",
		mac: "hmac-sha2-512-etm@openssh.com"},
	{name: "group14", kex: "diffie-hellman-group14-sha256", cipher: "aes128-gcm@openssh.com"},
	{name: "group-exchange", kex: "diffie-hellman-group-exchange-sha256",
		cipher: "chacha20-poly1305@openssh.com"},
}

// TestRecordedSessions replays OpenSSH's side of recorded sessions: our client and our server must
// send what they sent when they were recorded, which OpenSSH understood, byte for byte.
func TestRecordedSessions(t *testing.T) {
	for _, role := range []struct {
		name   string
		record func(*testing.T, *recordedSession)
		play   func(*testing.T, *recordedSession, net.Conn)
	}{
		{"client", recordClient, playClient},
		{"server", recordServer, playServer},
	} {
		for _, s := range recordedSessions {
			t.Run(role.name+"/"+s.name, func(t *testing.T) {
				file := filepath.Join("testdata", "recorded", role.name+"-"+s.name+".txt")
				if *record {
					role.record(t, &s)
					must(t, os.MkdirAll(filepath.Dir(file), 0o755))
					must(t, os.WriteFile(file, s.marshal(), 0o644))
				}
				text, err := os.ReadFile(file)
				must(t, err)
				must(t, s.unmarshal(text))
				conn := newPlayback(s.parts)
				role.play(t, &s, conn)
				conn.mu.Lock()
				defer conn.mu.Unlock()
				if len(conn.ours) > 0 {
					t.Errorf("the last %d bytes were not sent", len(conn.ours))
				}
				for _, p := range conn.parts {
					t.Errorf("%d bytes from the peer were not read", len(p.data))
				}
			})
		}
	}
}

// fixedKey returns a key that is always the same.
func fixedKey(t *testing.T, name string) (ed25519.PrivateKey, xssh.Signer) {
	t.Helper()
	seed := sha256.Sum256([]byte(name))
	key := ed25519.NewKeyFromSeed(seed[:])
	s, err := xssh.NewSignerFromKey(key)
	must(t, err)
	return key, s
}

const recordedData = 1000 // bytes

func (s *recordedSession) algorithms() ssh.Algorithms {
	a := ssh.Algorithms{KeyExchanges: []string{s.kex}, Ciphers: []string{s.cipher}}
	if s.mac != "" {
		a.MACs = []string{s.mac}
	}
	return a
}

// playClient logs in, sends data through cat or sftp-server, and exchanges keys in between. Each
// step waits for the one before: what is sent must not depend on the time.
func playClient(t *testing.T, s *recordedSession, conn net.Conn) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, key := fixedKey(t, "user")
	cc := clientConfig(key)
	cc.User, cc.Algorithms = recordedUser, s.algorithms()
	if s.flight {
		cc.Flight = func(*ssh.Conn) *ssh.Flight {
			return &ssh.Flight{Signer: key, Subsystem: "sftp"}
		}
	}
	cryptotest.SetGlobalRandom(t, 1)
	c, err := ssh.Client(ctx, conn, cc)
	must(t, err)
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() }) // releases whatever waits
	defer stop()

	var ch *ssh.Channel
	if s.flight {
		var ok bool
		ch, ok, err = c.FlightChannel(ctx)
		must(t, err)
		if ch == nil || !ok {
			t.Fatalf("the flight's channel: %v, %v", ch, ok)
		}
		sftpAsk(t, ch, []byte{1, 0, 0, 0, 3}) // INIT
	} else {
		ch, err = c.Open(ctx, "session", nil)
		must(t, err)
		ok, err := ch.Request(ctx, "exec", true, xssh.Marshal(struct{ S string }{"cat"}))
		must(t, err)
		if !ok {
			t.Fatal("exec was refused")
		}
	}
	for range 2 {
		if s.flight {
			sftpAsk(t, ch, []byte{16, 0, 0, 0, 1, 0, 0, 0, 1, '/'}) // REALPATH
		} else {
			data := pattern(recordedData)
			_, err := ch.Write(data)
			must(t, err)
			got := make([]byte, len(data))
			_, err = io.ReadFull(ch, got)
			must(t, err)
			if !bytes.Equal(got, data) {
				t.Error("what came back differs")
			}
		}
		must(t, c.Rekey())
		// goes out after the exchange
		_, _, err := c.SendRequest(ctx, "keepalive@openssh.com", true, nil)
		must(t, err)
	}
	must(t, ch.CloseWrite())
	if rest, err := io.ReadAll(ch); err != nil || len(rest) > 0 {
		t.Errorf("%d bytes at the end: %v", len(rest), err)
	}
	<-ch.Done()
	if e := ch.ExitStatus(); !e.Known || e.Status != 0 {
		t.Errorf("the program ended with %+v", e)
	}
	if n := c.Exchanges(); n != 3 {
		t.Errorf("keys were exchanged %d times", n)
	}
	must(t, c.Close())
}

// recordedUser is who recorded the sessions.
const recordedUser = "root"

// sftpAsk sends a packet of SFTP, and reads one.
func sftpAsk(t *testing.T, ch *ssh.Channel, packet []byte) {
	t.Helper()
	_, err := ch.Write(append([]byte{0, 0, 0, byte(len(packet))}, packet...))
	must(t, err)
	var size [4]byte
	_, err = io.ReadFull(ch, size[:])
	must(t, err)
	_, err = io.CopyN(io.Discard, ch, int64(binary.BigEndian.Uint32(size[:])))
	must(t, err)
}

// playServer lets a client in, reads what it sends to its program, exchanges keys, and sends it
// back.
func playServer(t *testing.T, s *recordedSession, conn net.Conn) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, host := fixedKey(t, "host")
	_, user := fixedKey(t, "user")
	sc := &ssh.ServerConfig{Version: "SSH-2.0-server", HostKeys: []xssh.Signer{host},
		Algorithms: s.algorithms(),
		Auth:       xssh.ServerAuthCallbacks{PublicKeyCallback: letIn(user.PublicKey())}}
	cryptotest.SetGlobalRandom(t, 2)
	c, err := ssh.Server(conn, sc)
	must(t, err)
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	offer, err := c.Accept()
	must(t, err)
	ch, err := offer.Accept()
	must(t, err)
	for {
		r, err := ch.NextRequest()
		must(t, err)
		must(t, r.Reply(r.Type == "exec"))
		if r.Type == "exec" {
			break
		}
	}
	data, err := io.ReadAll(ch)
	must(t, err)
	if !bytes.Equal(data, pattern(recordedData)) {
		t.Errorf("%d bytes came that differ", len(data))
	}
	must(t, c.Rekey())
	_, _, err = c.SendRequest(ctx, "keepalive@openssh.com", true, nil)
	must(t, err)
	_, err = ch.Write(data)
	must(t, err)
	must(t, ch.CloseWrite())
	_, err = ch.SendRequest("exit-status", false, []byte{0, 0, 0, 3})
	must(t, err)
	ch.Close()
	c.Wait()
	if n := c.Exchanges(); n != 2 {
		t.Errorf("keys were exchanged %d times", n)
	}
}

// playback is a connection to the recording of a peer. Whatever the peer said comes once what it
// answered has been sent.
type playback struct {
	mu     sync.Mutex
	change sync.Cond
	parts  []played
	ours   []byte // still to be sent
	sent   int
	closed bool
	wrong  error
}

// played is what a peer says once we have sent that many bytes.
type played struct {
	after int
	data  []byte
}

func newPlayback(parts []spoke) *playback {
	p := new(playback)
	p.change.L = &p.mu
	for _, part := range parts {
		if part.ours {
			p.ours = append(p.ours, part.data...)
		} else {
			p.parts = append(p.parts, played{len(p.ours), part.data})
		}
	}
	return p
}

func (p *playback) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.change.Broadcast()
	same := 0
	for same < min(len(b), len(p.ours)) && b[same] == p.ours[same] {
		same++
	}
	p.sent += same
	p.ours = p.ours[same:]
	if same < len(b) && p.wrong == nil {
		p.wrong = fmt.Errorf("byte %d differs from what was recorded (with another version of Go, "+
			"whose keys differ for the same seed, record again)", p.sent)
	}
	return same, p.wrong
}

func (p *playback) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.wrong == nil {
		switch {
		case len(p.parts) == 0 && len(p.ours) == 0:
			return 0, io.EOF
		case len(p.parts) > 0 && p.parts[0].after <= p.sent:
			n := copy(b, p.parts[0].data)
			if p.parts[0].data = p.parts[0].data[n:]; len(p.parts[0].data) == 0 {
				p.parts = p.parts[1:]
			}
			return n, nil
		}
		p.change.Wait()
	}
	if p.wrong != nil {
		return 0, p.wrong
	}
	return 0, net.ErrClosed
}

func (p *playback) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.change.Broadcast()
	return nil
}

func (*playback) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*playback) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*playback) SetDeadline(time.Time) error      { return nil }
func (*playback) SetReadDeadline(time.Time) error  { return nil }
func (*playback) SetWriteDeadline(time.Time) error { return nil }

// recorder is a connection that records what is sent over it.
type recorder struct {
	net.Conn
	mu sync.Mutex
	to *recordedSession
}

func (r *recorder) note(ours bool, p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.to.parts); n > 0 && r.to.parts[n-1].ours == ours {
		r.to.parts[n-1].data = append(r.to.parts[n-1].data, p...)
	} else if len(p) > 0 {
		r.to.parts = append(r.to.parts, spoke{ours, slices.Clone(p)})
	}
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.note(false, p[:n])
	return n, err
}

func (r *recorder) Write(p []byte) (int, error) {
	r.note(true, p) // before the answer can come
	return r.Conn.Write(p)
}

// openssh10 puts OpenSSH 10's programs first in PATH, and returns the options that its sshd needs.
func openssh10(t *testing.T, kex string) (config []string) {
	t.Helper()
	t.Setenv("USFTP_REQUIRE", "1") // who records wants to know why it cannot be
	dir := t.TempDir()
	wrapper := testenv.OpenSSH10(t, dir)
	wrapper("/usr/sbin/sshd")
	wrapper("/usr/bin/ssh")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return []string{"SshdSessionPath " + wrapper("/usr/lib/openssh/sshd-session"),
		"SshdAuthPath " + wrapper("/usr/lib/openssh/sshd-auth"),
		"KexAlgorithms " + kex}
}

func recordClient(t *testing.T, s *recordedSession) {
	_, key := fixedKey(t, "user")
	server := opensshd.Start(t, opensshd.Options{Config: openssh10(t, s.kex)})
	must(t, os.WriteFile(server.AuthorizedKeys, xssh.MarshalAuthorizedKey(key.PublicKey()), 0o600))
	conn, err := net.Dial("tcp", server.Addr())
	must(t, err)
	playClient(t, s, &recorder{Conn: conn, to: s})
	s.sayPeer()
}

func recordServer(t *testing.T, s *recordedSession) {
	openssh10(t, s.kex)
	key, _ := fixedKey(t, "user")
	block, err := xssh.MarshalPrivateKey(key, "")
	must(t, err)
	identity := filepath.Join(t.TempDir(), "id")
	must(t, os.WriteFile(identity, pem.EncodeToMemory(block), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	cmd := exec.CommandContext(t.Context(), opensshd.Find(t, "ssh"), "-F", "none", "-i", identity,
		"-p", fmt.Sprint(l.Addr().(*net.TCPAddr).Port), "-o", "BatchMode=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR", "-o", "KexAlgorithms="+s.kex,
		recordedUser+"@127.0.0.1", "cat")
	cmd.Stdin = bytes.NewReader(pattern(recordedData))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	must(t, cmd.Start())
	conn, err := l.Accept()
	must(t, err)
	playServer(t, s, &recorder{Conn: conn, to: s})
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 ||
		!bytes.Equal(out.Bytes(), pattern(recordedData)) {
		t.Fatalf("ssh ended with %v and %d bytes", err, out.Len())
	}
	s.sayPeer()
}

// sayPeer notes OpenSSH's version, which is the first line that it sent.
func (s *recordedSession) sayPeer() {
	for _, p := range s.parts {
		if !p.ours {
			line, _, _ := strings.Cut(string(p.data), "\r\n")
			s.peer = line
			return
		}
	}
}

// marshal returns a session as text: a line for the peer, and then what each side said, in base64.
func (s *recordedSession) marshal() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, s.peer)
	for _, p := range s.parts {
		who := "peer"
		if p.ours {
			who = "ours"
		}
		for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(p.data)), 92) {
			fmt.Fprintf(&b, "%s %s\n", who, line)
		}
		fmt.Fprintln(&b)
	}
	return b.Bytes()
}

func (s *recordedSession) unmarshal(text []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan()
	s.peer, s.parts = lines.Text(), nil
	encoded, who := "", ""
	for lines.Scan() {
		if lines.Text() != "" {
			var line string
			who, line, _ = strings.Cut(lines.Text(), " ")
			encoded += line
			continue
		}
		data, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, spoke{who == "ours", data})
		encoded = ""
	}
	return lines.Err()
}
