package usftp_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestWaitSaysWhy: after the end of the connection every call, and Wait, says why it ended.
func TestWaitSaysWhy(t *testing.T) {
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeStat,
		Do: sftptest.Hangup()}}}, 0)
	_, err := r.Stat("/")
	var lost *usftp.LostError
	if !errors.As(err, &lost) || !errors.As(r.Wait(), &lost) {
		t.Error(err, r.Wait())
	}
	if _, err := r.ReadDir("/"); !errors.As(err, &lost) {
		t.Error(err)
	}
}

// TestFatalDirectoryIsNamed: whatever a caller was about when the server ended the connection in
// the middle of a listing, the error says of which directory.
func TestFatalDirectoryIsNamed(t *testing.T) {
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeReaddir, Path: "/t/m",
		Do: sftptest.Hangup()}}}, 0)
	for _, dir := range []string{"/t", "/t/a", "/t/m", "/t/z"} {
		r.server.Files.Mkdir(dir)
	}
	failed := 0
	r.WalkDir("/t", func(_ string, _ fs.DirEntry, err error) error {
		if lost, ok := errors.AsType[*usftp.LostError](err); ok {
			failed++
			if lost.Listing != "/t/m" || !strings.Contains(err.Error(), "while it listed /t/m") {
				t.Error(err)
			}
		}
		return nil
	})
	if failed == 0 {
		t.Error("nothing has failed")
	}
}

// TestLostIsNoEndOfFile: the end of a connection, between two packets or within one, does not pass
// for the end of a file, and a copy that it cuts off fails.
func TestLostIsNoEndOfFile(t *testing.T) {
	for _, end := range []sftptest.Action{sftptest.Hangup(), sftptest.Truncate(1000)} {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead, From: 700_000,
			To: 1 << 40, Do: end}}}, 0)
		r.server.Files.WriteFile("/a", noise(1<<20))
		from := must[*usftp.File](t)(r.Open("/a"))
		to := must[*usftp.File](t)(newRig(t, sftptest.Script{}, 0).Create("/b"))
		n, err := from.CopyRange(0, -1, to, 0)
		if n >= 1<<20 || !errors.As(err, new(*usftp.LostError)) {
			t.Errorf("%v: copied %d bytes: %v", end, n, err)
		}
		_, err = from.ReadAt(make([]byte, 1), 0)
		if !errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) ||
			errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v: the error is %v", end, err)
		}
	}
	cause := &net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}
	inSSH := &usftp.LostError{Cause: fmt.Errorf("in SSH: %w", cause)}
	if !errors.Is(inSSH, net.ErrClosed) || errors.Is(inSSH, io.ErrUnexpectedEOF) {
		t.Errorf("%v matches io.ErrUnexpectedEOF", inSSH)
	}
	if op, ok := errors.AsType[*net.OpError](inSSH); op != cause || !ok ||
		!errors.Is(inSSH, cause) {
		t.Errorf("%v does not match its cause", inSSH)
	}
}

// TestFirstRequest: the first request follows INIT at once and costs no further round trip,
// but only to a server that works in order.
func TestFirstRequest(t *testing.T) {
	for _, version := range []string{openSSH, "SSH-2.0-other"} {
		bubble(t, func(t *testing.T) {
			const rtt = 100 * time.Millisecond
			want := 0
			if version == openSSH {
				want = 1
			}
			asked := make(chan error, 1)
			calls := 0
			took := trips(rtt, func() {
				newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(version),
					private.WithFirstRequest(func(c *usftp.Client) {
						calls++
						stat := c.Async().Stat("/")
						go func() {
							_, err := stat.Wait()
							asked <- err
						}()
					}))
				if want == 1 {
					ok(t, <-asked)
				}
			})
			if took != 1 || calls != want {
				t.Errorf("%s: %v round trips, and start was called %d times", version, took, calls)
			}
		})
	}
}

// openEnded is an SSH connection that ended just before a channel was asked for.
type openEnded struct {
	ssh.Conn
	forever chan struct{}
}

func (c openEnded) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	<-c.forever
	return nil, nil, io.EOF
}

func (openEnded) SendRequest(string, bool, []byte) (bool, []byte, error) { return false, nil, io.EOF }

// A connection that ends just before a channel is asked for is an error, although x/crypto/ssh
// waits for ever then.
func TestEndsBeforeItsChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := openEnded{forever: make(chan struct{})}
		defer close(conn.forever)
		if _, err := usftp.NewClient(&ssh.Client{Conn: conn}); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// silentConn is an SSH connection whose server says nothing, or opens a channel and then says
// nothing.
type silentConn struct {
	ssh.Conn
	ended chan struct{}
	opens bool
}

func (c silentConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	if c.opens {
		requests := make(chan *ssh.Request)
		close(requests)
		return silentChannel{ended: c.ended}, requests, nil
	}
	<-c.ended
	return nil, nil, io.EOF
}

func (c silentConn) SendRequest(string, bool, []byte) (bool, []byte, error) {
	<-c.ended
	return false, nil, io.EOF
}

type silentChannel struct {
	ssh.Channel
	ended chan struct{}
}

func (c silentChannel) SendRequest(string, bool, []byte) (bool, error) {
	<-c.ended
	return false, io.EOF
}

func (silentChannel) Stderr() io.ReadWriter { return new(bytes.Buffer) }
func (silentChannel) Close() error          { return nil }

// NewClient waits for a silent server as long as any other call does.
func TestNewClientOfASilentServer(t *testing.T) {
	for _, opens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			conn := silentConn{ended: make(chan struct{}), opens: opens}
			defer close(conn.ended)
			failed := make(chan error, 1)
			go func() {
				_, err := usftp.NewClient(&ssh.Client{Conn: conn},
					usftp.WithStallTimeout(10*time.Second))
				failed <- err
			}()
			select {
			case err := <-failed:
				if err == nil || !strings.Contains(err.Error(), "within 10s") {
					t.Error(err)
				}
			case <-time.After(11 * time.Second):
				t.Errorf("a server that opens a channel (%v) and falls silent is waited for", opens)
			}
		})
	}
}

// TestIdleClient: ten seconds after the last transfer a client has only two goroutines.
func TestIdleClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithWriteBehind(1<<20))
		synctest.Wait()
		before := testenv.Goroutines()
		f := must[*usftp.File](t)(r.Create("/f"))
		must[int64](t)(f.ReadFrom(bytes.NewReader(noise(5 << 20))))
		must[int](t)(f.Write(noise(1 << 20)))
		must[int64](t)(f.Seek(0, io.SeekStart))
		readAll(t, f, 1000)
		ok(t, f.Close())
		for range r.Walk("/") {
		}
		r.Async().Remove("/f").Forget()
		time.Sleep(10 * time.Second) // of the bubble's clock
		synctest.Wait()
		if after := testenv.Goroutines(); after > before {
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines more\n%s", after-before, buf[:runtime.Stack(buf, true)])
		}
	})
}

// lazySink takes this long for every Write.
type lazySink time.Duration

func (d lazySink) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(d))
	return len(p), nil
}

// If the link is the bottleneck, all of the time counts as waiting; if the writer is, almost none.
func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewServer(t, sftptest.Script{})
		server.Files.WriteFile("/file", make([]byte, 4<<20))
		const trip = 100 * time.Millisecond
		c := clientOf(t, server.Dial(sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2}))
		if err := c.Ping(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("there is nobody to ask: %v", err)
		}
		for _, sink := range []io.Writer{io.Discard, lazySink(time.Second)} {
			f, err := c.OpenRead("/file")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := f.WriteTo(sink); err != nil {
				t.Fatal(err)
			}
			took, waited := time.Since(began), private.OfFile(f).Waited()
			if sink == io.Discard && waited != took {
				t.Errorf("waited %v of %v", waited, took)
			}
			if sink != io.Discard && (waited > 5*trip || took < 16*time.Second) {
				t.Errorf("a slow writer: waited %v of %v", waited, took)
			}
			f.Close()
		}
	})
}

func TestPing(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{})
	end := server.Dial(sftptest.LinkConfig{})
	dead := errors.New("no answer")
	var asked []error
	c := clientOf(t, end, usftp.WithKeepalive(func(ctx context.Context) error {
		asked = append(asked, ctx.Err())
		return dead
	}))
	if err := c.Ping(t.Context()); err != dead || len(asked) != 1 || asked[0] != nil {
		t.Errorf("%v, asked %v", err, asked)
	}
}

// TestTalkativeServer: what a server writes to its standard error does not take the place of SFTP's
// data in the channel's window, which is 2 MiB.
func TestTalkativeServer(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{})
	address := testenv.Listen(t, func(conn net.Conn) { talk(conn, server) })
	conn, err := ssh.Dial("tcp", address.String(), &ssh.ClientConfig{
		HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	ok(t, err)
	defer conn.Close()
	client := must[*usftp.Client](t)(usftp.NewClient(conn, usftp.WithStallTimeout(10*time.Second)))
	defer client.Close()
	must[fs.FileInfo](t)(client.Stat("/"))
}

// talk serves SFTP on the first channel of an SSH connection, after 3 MiB to standard error.
func talk(stream net.Conn, server *sftptest.Scripted) error {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return err
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	_, channels, requests, err := ssh.NewServerConn(stream, config)
	if err != nil {
		return err
	}
	go ssh.DiscardRequests(requests)
	channel, asked, err := (<-channels).Accept()
	if err != nil {
		return err
	}
	(<-asked).Reply(true, nil) // it asks for the subsystem
	go ssh.DiscardRequests(asked)
	channel.Stderr().Write(make([]byte, 3<<20))
	return server.Serve(channel)
}

// A nil argument is the mistake of who passes it, and shows there: not in a later call, and not on
// a goroutine of ours, where nobody could recover the panic.
func TestNilArguments(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	f := usftp.NewFile(r.Client, "/f")
	var none context.Context
	for name, call := range map[string]func(){
		"Client.WithContext": func() { r.WithContext(none) },
		"File.WithContext":   func() { f.WithContext(none) },
		"NewClient":          func() { usftp.NewClient(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s takes nil", name)
				}
			}()
			call()
		}()
	}
}
