package dial

import (
	"context"
	"io"
	"net"
	"testing"

	"golang.org/x/crypto/ssh"
)

// A takenConn says when the kernel has taken a number of bytes.
type takenConn struct {
	*net.TCPConn
	left  int64
	taken chan struct{}
}

func (c *takenConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if was := c.left; was > 0 {
		if c.left -= int64(n); c.left <= 0 {
			close(c.taken)
		}
	}
	return n, err
}

// What waits here to be sent when a stream is abandoned never arrives: by then a new connection may
// have written something newer to the same place.
func TestAbandonDropsWhatIsQueued(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const size = 1 << 20 // less than the channel's window
	arrived := make(chan int64, 1)
	srv := newTestServer(t)
	srv.NoClientAuth = true
	srv.session = func(ch ssh.Channel, requests <-chan *ssh.Request) {
		go func() {
			for r := range requests {
				r.Reply(true, nil)
			}
		}()
		n, _ := io.Copy(io.Discard, ch)
		arrived <- n
	}
	var far *heldConn
	near := &takenConn{left: size / 2, taken: make(chan struct{})} // more than the far end takes
	d := srv.dialer(t, &Config{})
	d.tcp = func(ctx context.Context) (net.Conn, error) {
		ours, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		if err != nil {
			return nil, err
		}
		near.TCPConn = ours.(*net.TCPConn)
		theirs, err := listener.Accept()
		if err != nil {
			return nil, err
		}
		theirs.(*net.TCPConn).SetReadBuffer(64 << 10)
		far = &heldConn{Conn: theirs}
		go srv.serve(far)
		return near, nil
	}
	c := dialed(t, d)
	s := opened(t, c)
	far.mu.Lock()
	far.quiet.Store(true)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.Write(make([]byte, size)) // waits if the kernel takes less
	}()
	<-near.taken
	c.route.conn.heard.Store(1) // long ago
	if err := s.Abandon(); err != nil {
		t.Error(err)
	}
	<-written
	far.mu.Unlock()
	if n := <-arrived; n >= size/2 {
		t.Errorf("%d bytes arrived behind the end", n)
	}
	<-c.Done()
}
