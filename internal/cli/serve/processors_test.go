package serve

import (
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestProcessorsFollowConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set []int
		p := &processors{most: 3, set: func(n int) { set = append(set, n) }}
		expect := func(when string, want ...int) {
			t.Helper()
			time.Sleep(10 * processorsIdle) // of the bubble
			synctest.Wait()
			if !slices.Equal(set, want) {
				t.Errorf("%s: %v, want %v", when, set, want)
			}
			set = nil
		}
		p.enter()
		expect("one connection", 1)
		for range 4 {
			p.enter()
		}
		expect("five", 2, 3)
		for range 4 {
			p.leave()
		}
		if len(set) != 0 {
			t.Errorf("%v at once", set)
		}
		expect("one is left", 1)
		// One that comes and goes, as health checks do, does not have the number change each time.
		for range 100 {
			p.enter()
			time.Sleep(processorsIdle / 10)
			p.leave()
			time.Sleep(processorsIdle / 10)
		}
		expect("coming and going", 2, 1)
		p.leave()
		expect("none")
	})
}

// TestCountedConnectionsAreSockets: what hides the socket would have the server read in small
// pieces.
func TestCountedConnectionsAreSockets(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &processors{most: 2, set: func(int) {}}
	l := p.count(inner)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(syscall.Conn); !ok || p.connections != 1 {
		t.Errorf("%T, %d connections", conn, p.connections)
	}
	conn.Close()
	conn.Close()
	if p.connections != 0 {
		t.Errorf("%d connections after the only one closed", p.connections)
	}
	if none := newProcessors(1); none.count(inner) != inner {
		t.Error("with one processor there is nothing to count")
	}
}
