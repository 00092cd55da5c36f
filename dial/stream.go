package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// channelWindow is the window of a channel of OpenSSH or x/crypto/ssh.
const channelWindow = 2 << 20

// A Stream is a byte stream that speaks SFTP. One goroutine may call Read while another calls
// Write. After [Stream.Close] a Read in progress ends; with USFTP_SSH_STACK=xcrypto, or through an
// OpenSSH master, only when the server has closed the channel too, one round trip later, or with
// the [Conn]. If nothing arrives on the Conn for 15 s after that, it is given up.
type Stream struct {
	conn   *Conn
	read   io.Reader
	write  io.Writer
	end    func() error
	ended  <-chan struct{} // with the native dialer: closed when the server can send no more
	stderr *tail

	once   sync.Once
	closed atomic.Bool
	err    error

	status atomic.Pointer[int] // of the remote program, or of ssh; nil while unknown
}

// Read reads the server's output. At its end the error is io.EOF, and [Stream.ExitStatus] and
// [Stream.Stderr] may say why. If the whole connection has ended the error is an [*Error].
func (s *Stream) Read(p []byte) (int, error) { return s.read.Read(p) }

// Write sends p.
func (s *Stream) Write(p []byte) (int, error) { return s.write.Write(p) }

// CloseWrite says that nothing more will be written, for a program on the host that reads to the
// end. Its remaining output can be read.
func (s *Stream) CloseWrite() error {
	if w, ok := s.write.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return s.write.(io.Closer).Close() // the pipe of a process
}

// Close ends the stream. It waits for no round trip. With the system's ssh it ends and reaps the
// process, in bounded time. It may be called more than once.
func (s *Stream) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		s.err = s.end()
	})
	return s.err
}

// aliveWithin is how recently a connection must have been heard from to count as alive although one
// of its streams has stalled.
const aliveWithin = time.Second

// Abandon closes a stream that has stalled. If nothing arrives on its Conn either, the Conn is
// given up with all its streams, and its unsent data is dropped: it must not arrive after the data
// of a new connection.
func (s *Stream) Abandon() error {
	c := s.conn
	if c.route != nil && time.Since(c.heard()) > aliveWithin {
		c.cancel(&describedError{"the connection was given up because a stream on it had stalled",
			os.ErrDeadlineExceeded})
		c.route.cut()
	}
	return s.Close()
}

// Stderr returns the end of the peer's standard error, made printable except for line breaks.
func (s *Stream) Stderr() string { return s.stderr.text() }

// Window returns how many bytes the server may have on their way to us. It starts at 2 MiB and
// grows if the link carries more in a round trip. With a transport other than our own it stays 2
// MiB.
func (s *Stream) Window() int {
	if own, ok := s.write.(ownChannel); ok {
		return int(own.Channel.Window())
	}
	return channelWindow
}

// ExitStatus returns the exit status of the remote program, or of ssh itself. ok is false while the
// program runs and if no status arrived.
func (s *Stream) ExitStatus() (status int, ok bool) {
	if known := s.status.Load(); known != nil {
		return *known, true
	}
	return -1, false
}

func (s *Stream) setStatus(n int) { s.status.Store(&n) }

// openChannel opens a session and runs a program in it: RFC 4254, section 6.1.
func openChannel(ctx context.Context, c *Conn, p program) (*Stream, error) {
	ch, err := c.transport.session(ctx)
	if err != nil {
		return nil, openError(err)
	}
	ok, err := ch.run(ctx, p)
	return newStream(c, ch).granted(p, ok, err)
}

func openError(err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return fmt.Errorf("the server refused another channel: %w", refused)
	}
	return fmt.Errorf("opening a channel: %w", err)
}

func newStream(c *Conn, ch channel) *Stream {
	ended := make(chan struct{})
	s := &Stream{conn: c, write: ch, ended: ended, stderr: new(tail)}
	s.read = &channelOutput{s, ch}
	s.end = func() error {
		ch.Close()
		c.start(s.awaitEnd)
		return nil
	}
	go func() {
		io.CopyBuffer(s.stderr, ch.stderr(), make([]byte, tailSize/4)) // Copy's is 32 KiB
		ch.ended()
		if status, ok := ch.exitStatus(); ok {
			s.setStatus(status)
		}
		close(ended)
	}()
	return s
}

// granted interprets the answer to a request for a program.
func (s *Stream) granted(p program, ok bool, err error) (*Stream, error) {
	if err == nil && ok {
		return s, nil
	}
	// Its standard error and exit status arrive with the refusal or soon after.
	closedWithin(deathLimit, s.ended)
	s.Close()
	closedWithin(closeLimit/2, s.ended)
	reason := "it refused the request for " + p.String()
	if err != nil {
		reason = "it closed the channel"
	}
	status, _ := s.ExitStatus()
	return nil, &SubsystemError{Reason: reason, ExitStatus: status, Text: s.stderr.line(),
		refused: err == nil && p == new(Config).sftp()}
}

// endLimit is how long a server may take to confirm the end of a channel.
const endLimit = 15 * time.Second

// awaitEnd waits for the server to confirm that we closed a channel. A server does so whatever its
// program does (RFC 4254, section 5.3), so if nothing at all arrives for that long, the connection
// is dead.
func (s *Stream) awaitEnd() {
	began := time.Now()
	timer := time.NewTimer(endLimit)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-s.conn.ctx.Done():
	case <-timer.C:
		if !s.conn.heard().After(began) {
			s.conn.cancel(&timeoutError{"closing a channel", endLimit})
			s.conn.route.cut()
		}
	}
}

// A channelOutput is the output of a channel. Its end arrives a moment before the reason: the exit
// status and the last of standard error, or the loss of the connection. Read waits for the reason,
// so that a caller who sees the end can ask for it.
type channelOutput struct {
	s  *Stream
	ch channel
}

// deathLimit is how long to wait for the end of the connection after a channel ended without a
// reason: transports end their channels first.
const deathLimit = 100 * time.Millisecond

func (o *channelOutput) Read(p []byte) (int, error) {
	n, err := o.ch.Read(p)
	if err == nil {
		return n, nil
	}
	c := o.s.conn
	if err == io.EOF {
		if o.s.closed.Load() && c.ctx.Err() == nil {
			return n, io.EOF
		}
		closedWithin(closeLimit/2, o.s.ended)
	}
	if _, told := o.s.ExitStatus(); told && err == io.EOF {
		return n, io.EOF
	}
	if closedWithin(deathLimit, c.ctx.Done()) {
		return n, &Error{Host: c.Host(), Err: c.Err()}
	}
	return n, err
}

// tailSize is how much of the peer's standard error is kept.
const tailSize = 4 << 10

// A tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	if over := len(t.buf) + len(p) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(string(t.buf), "\n")
	for i := range lines {
		lines[i] = printable([]byte(lines[i]))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// line returns the text as one line.
func (t *tail) line() string { return strings.Join(strings.Split(t.text(), "\n"), "; ") }
