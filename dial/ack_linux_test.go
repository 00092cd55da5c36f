package dial

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
)

// Short answers of a server that may wait for it are acknowledged at once, and not 40 ms later. Of
// OpenSSH's, which never waits, that would be a waste.
func TestAnswersAreAcknowledged(t *testing.T) {
	t.Parallel()
	for version, atOnce := range map[string]bool{"SSH-2.0-paramiko_2.12.0": true,
		"SSH-2.0-OpenSSH_9.9": false, "SSH-2.0-usftp": false} {
		srv := newTestServer(t)
		srv.NoClientAuth, srv.ServerVersion = true, version
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		testenv.Accept(t, l, srv.serve)
		d := srv.dialer(t, &Config{})
		d.tcp = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
		}
		conn := dialed(t, d)
		for range 20 { // the kernel waits once it sees questions and answers
			if err := conn.Keepalive(testContext(t)); err != nil {
				t.Fatal(err)
			}
			if atOnce && !acknowledges(t, conn) {
				t.Fatalf("%s: the kernel waits for something to send along", version)
			}
		}
		if is := conn.route.conn.ack.Load() != nil; is != atOnce {
			t.Errorf("%s: acknowledged at once: %t", version, is)
		}
	}
}

// acknowledges reports whether the kernel acknowledges what comes over a connection at once.
func acknowledges(t *testing.T, c *Conn) (is bool) {
	t.Helper()
	raw, err := c.route.conn.Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		value, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK)
		is = err == nil && value == 1
	})
	return is
}
