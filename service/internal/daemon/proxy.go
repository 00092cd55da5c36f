package daemon

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
)

// proxied makes connections from trusted load balancers begin with a PROXY protocol header, which
// carries the client's own address. On all other connections no such header is accepted.
func (s *service) proxied(l net.Listener) net.Listener {
	if len(s.started.proxies) == 0 {
		return l
	}
	return &proxyListener{l, s.started.proxies}
}

type proxyListener struct {
	net.Listener
	trusted []netip.Prefix
}

func (l *proxyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok || !l.trusts(tcp.RemoteAddr()) {
		return conn, nil
	}
	return &proxyConn{TCPConn: tcp}, nil
}

func (l *proxyListener) trusts(end net.Addr) bool {
	tcp, ok := end.(*net.TCPAddr)
	if !ok {
		return false
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(l.trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

// A proxyConn begins with a header, which is read before anything else. The rest is used directly
// as a TCP connection, from which the server can read in large pieces, so exactly the header's
// bytes are taken off.
type proxyConn struct {
	*net.TCPConn
	once   sync.Once
	client net.Addr
	check  bool
	wrong  error
}

// Read returns why the header is wrong, if it is: the server logs that as it does other failed
// logins, and not more often.
func (c *proxyConn) Read(p []byte) (int, error) {
	if c.begin(); c.wrong != nil {
		return 0, c.wrong
	}
	return c.TCPConn.Read(p)
}

func (c *proxyConn) SyscallConn() (syscall.RawConn, error) {
	c.begin()
	return c.TCPConn.SyscallConn()
}

// RemoteAddr returns the client's address, or the balancer's own for its health checks and for
// invalid connections.
func (c *proxyConn) RemoteAddr() net.Addr {
	c.begin()
	return c.client
}

// proxyTimeout limits the wait for a header, which a balancer sends first.
const proxyTimeout = 5 * time.Second

func (c *proxyConn) begin() {
	c.once.Do(func() {
		c.client = c.TCPConn.RemoteAddr()
		c.SetReadDeadline(time.Now().Add(proxyTimeout))
		header, err := readProxyHeader(c.TCPConn)
		c.SetReadDeadline(time.Time{})
		if err == errNothing {
			c.check = true
			c.TCPConn.Close()
			return
		}
		if err != nil {
			c.wrong = fmt.Errorf("no PROXY protocol header from a trusted proxy: %w", err)
			return
		}
		if client, _, ok := header.TCPAddrs(); ok && header.Command == proxyproto.PROXY {
			c.client = client
			return
		}
		c.check = true
	})
}

// HealthCheck reports whether the connection is the balancer's own, to see whether the server
// lives.
func (c *proxyConn) HealthCheck() bool {
	c.begin()
	return c.check
}

const (
	proxyV1Most = 107 // the longest line of version 1, section 2.1 of the specification
	// of version 2 (section 2.2): signature, command, family, and the length of the rest
	proxyV2Prefix = 16
	proxyV2Most   = 2048
)

// errNothing is the error of a connection that ends at once, well or by a reset.
var errNothing = errors.New("nothing came")

// readProxyHeader reads a header and not a byte more; the library parses it.
func readProxyHeader(r io.Reader) (*proxyproto.Header, error) {
	buf := make([]byte, 1, proxyV2Prefix)
	_, err := io.ReadFull(r, buf)
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return nil, errNothing
	}
	if err != nil {
		return nil, err
	}
	switch buf[0] {
	case 'P':
		for buf[len(buf)-1] != '\n' {
			if len(buf) == proxyV1Most {
				return nil, errors.New("the version 1 header has no end")
			}
			buf = append(buf, 0)
			if _, err := io.ReadFull(r, buf[len(buf)-1:]); err != nil {
				return nil, cutOff(err)
			}
		}
	case '\r':
		buf = buf[:proxyV2Prefix]
		if _, err := io.ReadFull(r, buf[1:]); err != nil {
			return nil, cutOff(err)
		}
		rest := int(binary.BigEndian.Uint16(buf[proxyV2Prefix-2:]))
		if rest > proxyV2Most {
			return nil, fmt.Errorf("a header of %d bytes is too long", rest)
		}
		buf = append(buf, make([]byte, rest)...)
		if _, err := io.ReadFull(r, buf[proxyV2Prefix:]); err != nil {
			return nil, cutOff(err)
		}
	default:
		return nil, errors.New("something else came first")
	}
	return proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(buf), len(buf)))
}

// cutOff translates the end of the stream in the middle of a header.
func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
