package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/bench/turns"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/osfs"
	sshdserver "github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestRoundTripsOfALogin pins what each step from nothing to a file's first bytes costs on the
// wire, with OpenSSH's sshd and with package sshd, and one key. TCP's handshake is one more. The
// steps of a login are versions and KEXINIT of both sides, the key exchange, and one flight with
// the signature, the channel and the subsystem.
func TestRoundTripsOfALogin(t *testing.T) {
	t.Run("OpenSSH", func(t *testing.T) {
		t.Parallel()
		server, err := sshd.Start(sshd.Config{})
		if errors.Is(err, sshd.ErrNoServer) {
			testenv.Unavailable(t, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		proxy := listenFar(t, net.JoinHostPort(server.Address, server.Port))
		access, err := server.Via("127.0.0.1", strconv.Itoa(proxy.Port()))
		if err != nil {
			t.Fatal(err)
		}
		countLogins(t, proxy, access.ClientConfig, 3)
	})
	t.Run("usftp", func(t *testing.T) {
		t.Parallel()
		key := filepath.Join(t.TempDir(), "key")
		keys, err := sshdserver.ReadAuthorizedKeys(opensshd.Keygen(t, key) + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		files, err := osfs.New("/")
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		server, err := sshdserver.New(sshdserver.Config{
			PublicKey: func(_ ssh.ConnMetadata, offered ssh.PublicKey) (*sshdserver.Access, error) {
				return &sshdserver.Access{FS: files}, keys.Check("", offered, netip.Addr{})
			}})
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go server.Serve(listener)
		defer server.Close()
		proxy := listenFar(t, listener.Addr().String())
		config := filepath.Join(filepath.Dir(key), "config")
		err = os.WriteFile(config, fmt.Appendf(nil, "Host host\n\tHostName 127.0.0.1\n\tPort %d\n"+
			"\tIdentityFile %s\n\tIdentitiesOnly yes\n\tStrictHostKeyChecking no\n"+
			"\tUserKnownHostsFile none\n\tGlobalKnownHostsFile none\n", proxy.Port(), key), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		countLogins(t, proxy, config, 2) // its KEXINIT answers the connection
	})
}

// listenFar starts a proxy whose round trips are longer than a busy machine holds up a process.
func listenFar(t *testing.T, target string) *turns.Proxy {
	proxy, err := turns.Listen(turns.Config{Target: target, RTT: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	return proxy
}

// countLogins logs in three times, through a proxy, and opens the configuration file. further is
// how many round trips each login but the first takes.
func countLogins(t *testing.T, proxy *turns.Proxy, config string, further int) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
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
		&dial.Config{ConfigFile: config,
			LoginLikely: func(*dial.Dialer, time.Duration) { likely = proxy.Level() }})
	if err != nil {
		t.Fatal(err)
	}
	trips := 3
	for _, login := range []string{"first", "second"} {
		conn, err := dialer.Dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		step(login, "logging in", trips)
		trips = further
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
		file, err := client.OpenRead(config)
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
	step("third", "logging in", further)
	stream, err := conn.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	step("third", "the channel and the subsystem", 0)
	opened := make(chan error, 1)
	if _, err := usftp.NewClientPipe(stream, stream, usftp.WithServerVersion(conn.ServerVersion()),
		private.WithFirstRequest(func(c *usftp.Client) {
			go func() {
				_, err := c.OpenRead(config)
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
