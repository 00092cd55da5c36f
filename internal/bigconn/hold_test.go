package bigconn_test

import (
	"bytes"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/bigconn"
)

// recording takes all writes at once.
type recording struct {
	net.Conn
	writes [][]byte
}

func (r *recording) Write(p []byte) (int, error) {
	r.writes = append(r.writes, bytes.Clone(p))
	return len(p), nil
}

func (r *recording) Close() error { return nil }

func (r *recording) lengths() (all []int) {
	for _, p := range r.writes {
		all = append(all, len(p))
	}
	return all
}

// TestHeldWritesGoTogether: when Release returns they have gone, which no other goroutine can have
// done in between.
func TestHeldWritesGoTogether(t *testing.T) { synctest.Test(t, testHeldWritesGoTogether) }

func testHeldWritesGoTogether(t *testing.T) {
	under := &recording{}
	conn := bigconn.New(under, &bigconn.Pool{})
	if !conn.Hold() {
		t.Fatal("nothing is held")
	}
	for range 5 {
		conn.Write([]byte("short"))
		conn.Write(large())
	}
	if len(under.writes) != 0 {
		t.Errorf("writes of %v bytes while they are held", under.lengths())
	}
	conn.Release()
	if got := under.lengths(); len(got) != 1 || got[0] != 5*(5+len(large())) {
		t.Errorf("writes of %v bytes", got)
	}
	// What is too much to hold goes in full buffers.
	conn.Hold()
	conn.Write(make([]byte, 2*bigconn.Size+100))
	conn.Release()
	if got := under.lengths()[1:]; len(got) != 3 || got[0] != bigconn.Size ||
		got[1] != bigconn.Size || got[2] != 100 {
		t.Errorf("writes of %v bytes", got)
	}
}

// TestTheLastHoldCounts: several sessions share a connection.
func TestTheLastHoldCounts(t *testing.T) { synctest.Test(t, testTheLastHoldCounts) }

func testTheLastHoldCounts(t *testing.T) {
	under := &recording{}
	conn := bigconn.New(under, &bigconn.Pool{})
	conn.Hold()
	conn.Hold()
	conn.Write(large())
	conn.Release()
	if len(under.writes) != 0 {
		t.Error("somebody else holds on, and it is written")
	}
	conn.Release()
	if len(under.writes) != 1 {
		t.Errorf("%d writes", len(under.writes))
	}
}

// TestStuckHold has a writer wait, while it holds, for the peer to answer what is held.
func TestStuckHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := &recording{}
		conn := bigconn.New(under, &bigconn.Pool{})
		conn.Hold()
		conn.Write(large())
		time.Sleep(100 * time.Millisecond) // of the bubble
		synctest.Wait()
		if len(under.writes) != 1 {
			t.Fatalf("%d writes: the peer will not answer what it has not got", len(under.writes))
		}
		conn.Release()
		if conn.Hold() {
			t.Error("the next one would get stuck as well")
		}
		time.Sleep(2 * time.Second)
		if !conn.Hold() {
			t.Error("nothing is ever held again")
		}
		conn.Write(large())
		conn.Close()
		if len(under.writes) != 2 {
			t.Errorf("%d writes: what was held is lost", len(under.writes))
		}
		if _, err := conn.Write(large()); err == nil {
			t.Error("a closed connection takes more")
		}
		conn.Release()
	})
}
