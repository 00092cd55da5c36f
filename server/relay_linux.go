package server

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/bigpipe"
)

// relayLeast is the smallest read sent through a relay: copying less is faster.
const relayLeast = 16 << 10

// relay is a pipe of our own through which file contents reach a client's pipe without being
// copied: the kernel puts the file's pages into our pipe, and moves them on once their number is
// known and the header has been sent. If the file is written to before the client has read, the
// client sees the new data, as if it had asked later; so relays are only for handles opened only
// for reading. One goroutine uses a relay at a time.
type relay struct {
	fds    [2]int // reading and writing end of our pipe
	client syscall.RawConn

	// Arguments of the calls below: a closure for each call would be garbage.
	offset int64
	left   int
	err    error
	load1  func(fd uintptr)
	send1  func(fd uintptr) bool
}

// newRelay returns a relay to a client's pipe, or nil if client is no pipe or no suitable pipe can
// be made.
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
	// Each page of a file needs a slot: the usual 64 KiB would be too few for one read.
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

// load moves up to n bytes at offset of a file into the relay, and returns the number moved.
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
			return false // the client's pipe is non-blocking and full: the caller waits
		case err != nil:
			y.err = err
			return true
		}
		y.left -= int(n)
	}
	return true
}
