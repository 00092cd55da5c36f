package conn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func TestHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := dial(t, sftptest.LinkConfig{MaxPiece: 1}, conn.Config{})
		q := conn.NewQueue()
		start(t, c, q, stat(c)) // nothing forbids to ask before the answer to INIT
		p.next()
		p.send(wire.InitReply{Version: 3, Extensions: []wire.ExtensionPair{{Name: "a@b",
			Data: "1"}}}.Append(nil))
		must(t, c.Handshake(context.Background()))
		if server := c.Server(); server.Version != 3 || len(server.Extensions) != 1 ||
			server.Extensions[0].Name != "a@b" {
			t.Errorf("the server said %+v", server)
		}
		p.status(p.next().id, wire.NoSuchFile)
		c.Recycle(take(t, q))
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for range 100 {
			// it is done: a context that is done as well must not end the connection
			must(t, c.Handshake(gone))
		}
		finish(t, c)
	})
}

func TestTextInPlaceOfSFTP(t *testing.T) {
	version := string(wire.InitReply{Version: 3}.Append(nil))
	long := strings.Repeat("all work and no play ", 100)
	for _, test := range []struct{ name, sent, shown string }{
		{"nologin", "This account is currently not available.\n",
			"This account is currently not available.\n"},
		{"login script", "Welcome, Müller!\r\n\tYou have mail.\n" + version,
			"Welcome, Müller!\r\n\tYou have mail.\n"},
		{"short", "no", "no"},
		{"one byte", "$", "$"},
		{"nothing", "", ""},
		{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", "SSH-2.0-OpenSSH_9.9\r\n"},
		{"long", long, long[:512]},
		{"a STATUS", string(wire.Status{Code: wire.Failure}.Append(nil, 0)),
			"\x00\x00\x00\x11e\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"VERSION of 1 GiB", "\x40\x00\x00\x00\x02\x00\x00\x00\x03", "@"},
		{"length of nothing", "\x00\x00\x00\x00", "\x00\x00\x00\x00"},
		{"length of 2 MiB", "\x00\x20\x00\x00", "\x00 \x00\x00"},
		{"another type", "\x00\x00\x00\x05\x01", "\x00\x00\x00\x05\x01"},
	} {
		for _, end := range []string{"", " and then it ends", " and then it is cut",
			" and then nothing"} {
			for _, piece := range []int{0, 1} {
				if end == " and then nothing" && test.sent == "" {
					continue // that is for the caller's context
				}
				t.Run(test.name+end, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, p := dial(t, sftptest.LinkConfig{MaxPiece: piece}, conn.Config{})
						p.send([]byte(test.sent))
						switch end {
						case "":
							p.CloseWrite()
						case " and then it ends":
							p.Close() // INIT meets a closed stream
						case " and then it is cut":
							p.CutAfter(0, io.EOF)
						}
						q := conn.NewQueue()
						within(t, 200*time.Millisecond, "Handshake", func() {
							if err := c.Handshake(context.Background()); err == nil ||
								err != c.Err() {
								t.Errorf("Handshake: %v, Err: %v", err, c.Err())
							}
						})
						call := stat(c)
						call.Done = q
						if err := c.Start(context.Background(), call); err != c.Err() {
							t.Errorf("Start: %v", err)
						}
						said := string(ended[*conn.NotSFTPError](t, c).Text)
						if said != test.shown && !(test.name == "a STATUS" &&
							strings.HasPrefix(test.shown, said)) {
							t.Errorf("the text is %q, want %q", said, test.shown)
						}
						finish(t, c)
					})
				})
			}
		}
	}
}

func TestTextIsWrittenBeforeINITIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := sftptest.NewLink(sftptest.LinkConfig{ToClient: 50 * time.Millisecond})
		p := &peer{t, server}
		p.send([]byte("This account is currently not available.\n"))
		c := conn.New(client, brokenPipe{client}, conn.Config{})
		p.CloseWrite()
		c.Handshake(context.Background())
		ended[*conn.NotSFTPError](t, c)
		finish(t, c)
	})
}

type brokenPipe struct{ io.WriteCloser }

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestStreamThatTakesNoINIT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := sftptest.NewLink(sftptest.LinkConfig{})
		c := conn.New(client, brokenPipe{client}, conn.Config{})
		within(t, time.Second, "Handshake", func() { c.Handshake(context.Background()) })
		if lost := ended[*conn.LostError](t, c); lost.Cause != io.ErrClosedPipe {
			t.Errorf("the cause is %v", lost.Cause)
		}
		finish(t, c)
	})
}

func TestHandshakeIsGivenUp(t *testing.T) {
	why := errors.New("why")
	for _, sent := range []string{"", "\x00\x00\x00\x05\x02\x00\x00\x00"} {
		synctest.Test(t, func(t *testing.T) {
			c, p := dial(t, sftptest.LinkConfig{}, conn.Config{})
			p.send([]byte(sent))
			ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, why)
			defer cancel()
			within(t, 5*time.Second, "Handshake", func() {
				if err := c.Handshake(ctx); !errors.Is(err, why) || !errors.Is(err, net.ErrClosed) {
					t.Errorf("Handshake: %v", err)
				}
			})
			ended[*conn.HandshakeError](t, c)
			finish(t, c)
		})
	}
}

func TestVersions(t *testing.T) {
	for _, test := range []struct {
		packet []byte
		want   string
	}{
		{wire.InitReply{Version: 2}.Append(nil), "speaks version 2"},
		{wire.InitReply{Version: 0}.Append(nil), "speaks version 0"},
		{[]byte("\x00\x00\x00\x09\x02\x00\x00\x00\x03\xff\xff\xff\xff"), "VERSION"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, p := dial(t, sftptest.LinkConfig{}, conn.Config{})
			p.send(test.packet)
			c.Handshake(context.Background())
			if err := ended[*conn.ProtocolError](t, c); !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q, want %q", err, test.want)
			}
			finish(t, c)
		})
	}
}
