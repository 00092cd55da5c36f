package dial

import (
	"context"
	"io"
	"net"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A lockstep is a proxy that lets the two ends speak in turns: all that one has to say
// is delivered at once when it has fallen silent. So its count of turns is that of round
// trips on a link whose delay outweighs everything else.
type lockstep struct {
	net.Listener
	turns atomic.Int64 // deliveries to the server
}

// silence is how long an end must say nothing for its turn to be over.
const silence = 40 * time.Millisecond

func newLockstep(t testing.TB, server string) *lockstep {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lockstep{Listener: l}
	testenv.Accept(t, l, func(client net.Conn) { p.serve(client, server) })
	return p
}

func (p *lockstep) serve(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	// Accepting was the round trip of TCP's own; each end's first words need no other.
	fromClient, fromServer := chunks(client), chunks(server)
	var up, down []byte
	quiet := time.NewTimer(silence)
	for {
		select {
		case b, ok := <-fromClient:
			if !ok {
				return
			}
			up = append(up, b...)
			quiet.Reset(silence)
			continue
		case b, ok := <-fromServer:
			if !ok {
				client.Write(down)
				return
			}
			down = append(down, b...)
			quiet.Reset(silence)
			continue
		case <-quiet.C:
		}
		if len(up) > 0 {
			p.turns.Add(1)
		}
		// Crossing on the wire: what both had to say arrives at the same time.
		server.Write(up)
		client.Write(down)
		up, down = nil, nil
		quiet.Reset(silence)
	}
}

func chunks(c net.Conn) <-chan []byte {
	ch := make(chan []byte)
	go func() {
		defer close(ch)
		for {
			b := make([]byte, 64<<10)
			n, err := c.Read(b)
			if n > 0 {
				ch <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}

// TestRoundTrips counts what it takes from connecting to the answer to SFTP's INIT,
// against OpenSSH's own client.
func TestRoundTrips(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	native := func(ctx context.Context, config []string) error {
		d, err := New(ctx, Target{Host: srv.Alias},
			&Config{ConfigFile: srv.ConfigFile, Options: config})
		if err != nil {
			return err
		}
		c, err := d.Dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := c.Open(ctx)
		if err != nil {
			return err
		}
		greet(t, s)
		return nil
	}
	openssh := func(ctx context.Context, config []string) error {
		args := []string{"-F", srv.ConfigFile}
		for _, o := range config {
			args = append(args, "-o", o)
		}
		cmd := exec.CommandContext(ctx, opensshd.Find(t, "ssh"),
			append(args, "-s", srv.Alias, "sftp")...)
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		greet(t, struct {
			io.Reader
			io.Writer
		}{out, in})
		cmd.Process.Kill()
		cmd.Wait()
		return nil
	}
	// A pause of the machine's looks like a turn, so the least of some counts is the
	// right one; once it is no more than enough there is nothing to find out.
	count := func(tries int, enough int64, login func(context.Context, []string) error) int64 {
		best := int64(1 << 30)
		for try := 0; try < tries && best > enough; try++ {
			p := newLockstep(t, srv.Addr())
			_, port, _ := net.SplitHostPort(p.Addr().String())
			if err := login(testContext(t), []string{"Port=" + port,
				"HostKeyAlias=[" + srv.Host + "]:" + strconv.Itoa(srv.Port)}); err != nil {
				t.Fatal(err)
			}
			best = min(best, p.turns.Load())
		}
		return best
	}
	theirs := count(3, 0, openssh)
	ours := count(10, theirs, native)
	t.Logf("round trips from the accepted connection to VERSION: %d, and OpenSSH's client %d", ours,
		theirs)
	if ours > theirs {
		t.Errorf("logging in takes %d round trips, and OpenSSH's client %d", ours, theirs)
	}
}
