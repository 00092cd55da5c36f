package sshd

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
)

// TestSlowLinkIsNoIdleOne: while a client still takes what was written long ago, however slowly,
// its connection is not idle; once it takes nothing any more, it is.
func TestSlowLinkIsNoIdleOne(t *testing.T) {
	near, far := testenv.TCPPair()
	t.Cleanup(func() { near.Close(); far.Close() })
	far.SetReadBuffer(64 << 10) // soon full, when nobody reads
	if _, waiting := acknowledged(near); waiting {
		t.Error("bytes are waiting on a new connection")
	}
	// More than the buffers hold: this single Write lasts for the whole test. It is outside the
	// bubble, whose clock would stand still while one of its goroutines waits for the network.
	ended := make(chan error, 1)
	go func() {
		_, err := near.Write(make([]byte, 64<<20))
		ended <- err
	}()
	synctest.Test(t, func(t *testing.T) {
		conn := &connection{Conn: near}
		const timeout = time.Minute
		stop := conn.watchIdle(timeout, nil)
		defer stop()
		taken := int64(0)
		for range 20 {
			before, _ := acknowledged(near)
			// Acknowledgements come only now and then: the kernel waits for enough room.
			for now := before; now == before; now, _ = acknowledged(near) {
				n, err := io.CopyN(io.Discard, far, 64<<10)
				if taken += n; err != nil {
					t.Fatalf("closed as idle after %d bytes, in the middle of a transfer: %v",
						taken, err)
				}
			}
			time.Sleep(timeout * 3 / 4) // on the fake clock: a slow link
		}
		// What the buffers have room for still moves, in the system's time, and is progress.
		for tries := 0; !errors.Is(near.SetDeadline(time.Time{}), net.ErrClosed); tries++ {
			if tries == 100 {
				t.Fatal("a client that takes nothing any more is not idle")
			}
			unix.Nanosleep(&unix.Timespec{Nsec: 1e7}, nil) // on the system's clock
			time.Sleep(2 * timeout)
			synctest.Wait()
		}
		if err := <-ended; err == nil {
			t.Error("all was taken in the end")
		}
	})
}
