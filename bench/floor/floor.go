// Package floor is the least that a client can do to move a file over SFTP: it keeps requests in
// flight on raw file descriptors and drops the replies. Nothing that checks, orders or hands on the
// data can be faster over the same stream, so a library is measured by how near it comes.
package floor

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The packet types of draft-02, section 3, that the loops need.
const (
	typeInit   = 1
	typeOpen   = 3
	typeClose  = 4
	typeRead   = 5
	typeWrite  = 6
	typeStatus = 101
	typeHandle = 102
	typeData   = 103
)

const (
	openRead            = 0x01
	openWriteCreateTrim = 0x02 | 0x08 | 0x10
)

// A Setting is one point of the search for the best floor.
type Setting struct {
	// Packet is the payload of one READ or WRITE in bytes.
	Packet int
	// InFlight is the number of requests kept in flight.
	InFlight int
}

func (s Setting) String() string {
	return fmt.Sprintf("packet=%dKiB/inflight=%d", s.Packet>>10, s.InFlight)
}

// Settings are all that the benchmark tries. 261120 is the largest payload that OpenSSH's server
// takes.
func Settings() []Setting {
	var all []Setting
	for _, packet := range []int{32 << 10, 64 << 10, 128 << 10, 261120} {
		for _, inFlight := range []int{4, 16, 64} {
			all = append(all, Setting{packet, inFlight})
		}
	}
	return all
}

// Client is a connection without goroutines, locks or ids worth the name.
type Client struct {
	// Reads and Writes count the system calls.
	Reads, Writes int

	r, w    int
	replies []byte // the buffer of one read system call
	out     []byte
	payload []byte
	vectors [][]byte
}

// New says INIT over a pair of pipe ends or sockets, which it sets to blocking mode and does not
// close.
func New(r, w *os.File) (*Client, error) {
	c := &Client{replies: make([]byte, 256<<10), payload: make([]byte, 261120),
		vectors: make([][]byte, 2)}
	for _, end := range []struct {
		file *os.File
		fd   *int
	}{{r, &c.r}, {w, &c.w}} {
		*end.fd = int(end.file.Fd())
		if err := unix.SetNonblock(*end.fd, false); err != nil {
			return nil, err
		}
	}
	// No request id: INIT and VERSION have none, and the four bytes in its place are the version.
	if err := c.write(binary.BigEndian.AppendUint32(nil, 5),
		[]byte{typeInit, 0, 0, 0, 3}); err != nil {
		return nil, err
	}
	_, _, err := c.packet()
	return c, err
}

// write sends two pieces with one system call where the kernel takes them whole.
func (c *Client) write(a, b []byte) error {
	for len(a)+len(b) > 0 {
		c.vectors[0], c.vectors[1] = a, b
		n, err := unix.Writev(c.w, c.vectors)
		c.Writes++
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		taken := min(n, len(a))
		a, b = a[taken:], b[n-taken:]
	}
	return nil
}

func (c *Client) read(p []byte) (int, error) {
	for {
		n, err := unix.Read(c.r, p)
		c.Reads++
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return n, nil
		}
	}
}

// packet reads one whole packet, for the few that are not part of a loop.
func (c *Client) packet() (kind byte, body []byte, err error) {
	have := 0
	for have < 4 || have < 4+int(binary.BigEndian.Uint32(c.replies)) {
		n, err := c.read(c.replies[have:])
		if err != nil {
			return 0, nil, err
		}
		have += n
	}
	return c.replies[4], c.replies[5:have], nil
}

// call sends a request of one string and a tail, and returns its reply.
func (c *Client) call(request byte, name string, tail ...byte) (kind byte, body []byte, err error) {
	p := binary.BigEndian.AppendUint32(nil, uint32(1+4+4+len(name)+len(tail)))
	p = append(p, request, 0, 0, 0, 0)
	p = binary.BigEndian.AppendUint32(p, uint32(len(name)))
	p = append(append(p, name...), tail...)
	if err := c.write(p, nil); err != nil {
		return 0, nil, err
	}
	return c.packet()
}

func (c *Client) open(path string, flags uint32) (handle string, err error) {
	tail := binary.BigEndian.AppendUint32(nil, flags)
	kind, body, err := c.call(typeOpen, path, append(tail, 0, 0, 0, 0)...)
	if err != nil {
		return "", err
	}
	if kind != typeHandle || len(body) < 8 {
		return "", fmt.Errorf("open %s: reply of type %d: %q", path, kind, body)
	}
	return string(body[8:]), nil
}

func (c *Client) close(handle string) error {
	kind, body, err := c.call(typeClose, handle)
	if err == nil && (kind != typeStatus || binary.BigEndian.Uint32(body[4:]) != 0) {
		err = fmt.Errorf("close: reply of type %d: %q", kind, body)
	}
	return err
}

// Download opens path, asks for its first size bytes and drops them.
func (c *Client) Download(path string, size int64, s Setting) error {
	handle, err := c.open(path, openRead)
	if err != nil {
		return err
	}
	var asked, got int64
	tally := replies{client: c, wanted: typeData}
	for inFlight := 0; got < size; {
		c.out = c.out[:0]
		for ; inFlight < s.InFlight && asked < size; inFlight++ {
			n := min(int64(s.Packet), size-asked)
			c.out = appendRequest(c.out, typeRead, handle, asked, int(n), 0)
			asked += n
		}
		if err := c.write(c.out, nil); err != nil {
			return err
		}
		packets, bytes, err := tally.next()
		if err != nil {
			return err
		}
		inFlight -= packets
		got += bytes
	}
	if err := tally.end(); err != nil {
		return err
	}
	return c.close(handle)
}

// Upload creates path and writes size bytes of whatever is in memory.
func (c *Client) Upload(path string, size int64, s Setting) error {
	handle, err := c.open(path, openWriteCreateTrim)
	if err != nil {
		return err
	}
	tally := replies{client: c, wanted: typeStatus}
	var sent int64
	for inFlight := 0; sent < size || inFlight > 0; {
		for ; inFlight < s.InFlight && sent < size; inFlight++ {
			n := int(min(int64(s.Packet), size-sent))
			c.out = appendRequest(c.out[:0], typeWrite, handle, sent, n, n)
			if err := c.write(c.out, c.payload[:n]); err != nil {
				return err
			}
			sent += int64(n)
		}
		packets, _, err := tally.next()
		if err != nil {
			return err
		}
		inFlight -= packets
	}
	if err := tally.end(); err != nil {
		return err
	}
	return c.close(handle)
}

// appendRequest appends a READ, or a WRITE up to its payload.
func appendRequest(p []byte, kind byte, handle string, offset int64, length, payload int) []byte {
	p = binary.BigEndian.AppendUint32(p, uint32(1+4+4+len(handle)+8+4+payload))
	p = append(p, kind, 0, 0, 0, 1)
	p = binary.BigEndian.AppendUint32(p, uint32(len(handle)))
	p = append(p, handle...)
	p = binary.BigEndian.AppendUint64(p, uint64(offset))
	return binary.BigEndian.AppendUint32(p, uint32(length))
}
