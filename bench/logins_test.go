package bench

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/bench/turns"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/testenv"
)

// TestRoundTripsOfALogin pins what each step from nothing to a file's first bytes costs on the
// wire, with OpenSSH's sshd and one key. TCP's handshake is one more. The steps of a login are
// versions and KEXINIT of both sides, the key exchange, and one flight with the signature, the
// channel and the subsystem.
func TestRoundTripsOfALogin(t *testing.T) {
	server, err := sshd.Start(sshd.Config{})
	if errors.Is(err, sshd.ErrNoServer) {
		testenv.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	proxy, err := turns.Listen(turns.Config{Target: net.JoinHostPort(server.Address, server.Port),
		RTT: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	access, err := server.Via("127.0.0.1", strconv.Itoa(proxy.Port()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	level, likely := 0, 0
	step := func(login, what string, want int) {
		t.Helper()
		now := proxy.Level()
		if got := now - level; got != want {
			t.Errorf("%s login: %s takes %d round trips, want %d", login, what, got, want)
		}
		level = now
	}
	dialer, err := dial.New(ctx, dial.Target{Host: "host"},
		&dial.Config{ConfigFile: access.ClientConfig,
			LoginLikely: func(*dial.Dialer, time.Duration) { likely = proxy.Level() }})
	if err != nil {
		t.Fatal(err)
	}
	for _, login := range []string{"first", "second"} {
		conn, err := dialer.Dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		step(login, "logging in", 3)
		stream, err := conn.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		step(login, "the channel and the subsystem", 0)
		client, err := usftp.NewClientPipe(stream, stream,
			usftp.WithServerVersion(conn.ServerVersion()), usftp.WithChannelWindow(stream.Window()))
		if err != nil {
			t.Fatal(err)
		}
		step(login, "INIT", 1)
		file, err := client.OpenRead(access.ClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		step(login, "opening a file and knowing its size", 1)
		if _, err := file.ReadAt(make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
		step(login, "reading", 1)
	}
	conn, err := dialer.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	step("third", "logging in", 3)
	stream, err := conn.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	step("third", "the channel and the subsystem", 0)
	opened := make(chan error, 1)
	if _, err := usftp.NewClientPipe(stream, stream, usftp.WithServerVersion(conn.ServerVersion()),
		private.WithFirstRequest(func(c *usftp.Client) {
			go func() {
				_, err := c.OpenRead(access.ClientConfig)
				opened <- err
			}()
		})); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	step("third", "INIT, and opening a file ahead,", 1)
	if likely != 2 {
		t.Errorf("further logins may begin after %d round trips of the first, want 2", likely)
	}
}
