package server

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/bigpipe"
)

// relayLeast is the least that goes through a relay: less is copied sooner.
const relayLeast = 16 << 10

// relay is a pipe of our own, by which the contents of files go to a client's pipe without being
// copied: the kernel puts the file's pages into ours, and moves them on once it is known how many
// there are and the header has been sent. What somebody writes to the file before the client has
// read is seen by the client, as if it had asked later; so relays are for handles that cannot write
// themselves. One goroutine uses a relay at a time.
type relay struct {
	fds    [2]int // reading and writing end of our pipe
	client syscall.RawConn

	// What the calls below are about: closures of their own would be garbage for each.
	offset int64
	left   int
	err    error
	load1  func(fd uintptr)
	send1  func(fd uintptr) bool
}

// newRelay returns a relay to what a client reads; nil if that is no pipe, or none of ours can be
// had.
func newRelay(client *os.File) *relay {
	raw, err := client.SyscallConn()
	if err != nil {
		return nil
	}
	isPipe := false
	raw.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		isPipe = err == nil
	})
	y := &relay{client: raw}
	if !isPipe || unix.Pipe2(y.fds[:], unix.O_CLOEXEC) != nil {
		return nil
	}
	// A file's pages need a slot each: the usual 64 KiB would be too few for what is read at once.
	if size, err := unix.FcntlInt(uintptr(y.fds[1]), unix.F_SETPIPE_SZ, bigpipe.Size); err != nil ||
		size < bigpipe.Size {
		y.close()
		return nil
	}
	y.load1, y.send1 = y.loadOnce, y.sendOnce
	return y
}

func (y *relay) close() {
	unix.Close(y.fds[0])
	unix.Close(y.fds[1])
}

// load takes up to n bytes at offset of a file in, and returns how many there were.
func (y *relay) load(file syscall.RawConn, offset int64, n int) (int, error) {
	y.offset, y.left, y.err = offset, n, nil
	if err := file.Control(y.load1); err != nil {
		return 0, err
	}
	return n - y.left, y.err
}

func (y *relay) loadOnce(fd uintptr) {
	for y.left > 0 {
		n, err := unix.Splice(int(fd), &y.offset, y.fds[1], nil, y.left, unix.SPLICE_F_MOVE)
		if err == unix.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			y.err = err
			return
		}
		y.left -= int(n)
	}
}

// send moves n bytes on to the client.
func (y *relay) send(n int) error {
	y.left, y.err = n, nil
	if err := y.client.Write(y.send1); err != nil {
		return err
	}
	return y.err
}

func (y *relay) sendOnce(fd uintptr) (done bool) {
	for y.left > 0 {
		n, err := unix.Splice(y.fds[0], nil, int(fd), nil, y.left, unix.SPLICE_F_MOVE)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false // of a client's pipe that does not block: the caller waits
		case err != nil:
			y.err = err
			return true
		}
		y.left -= int(n)
	}
	return true
}
