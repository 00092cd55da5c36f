package testenv

import (
	"net"
	"sync"
	"testing"
)

// TCPPair returns both ends of a new connection of this machine, which the caller closes.
func TCPPair() (near, far *net.TCPConn) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		panic(err)
	}
	defer l.Close()
	if near, err = net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)); err != nil {
		panic(err)
	}
	if far, err = l.AcceptTCP(); err != nil {
		panic(err)
	}
	return near, far
}

// Listen serves connections to a port of 127.0.0.1 as Accept does.
func Listen(tb testing.TB, serve func(net.Conn)) *net.TCPAddr {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	Accept(tb, l, serve)
	return l.Addr().(*net.TCPAddr)
}

// Accept serves each connection on a goroutine of its own. When the test ends it closes the
// listener and the connections, and waits for serve.
func Accept(tb testing.TB, l net.Listener, serve func(net.Conn)) {
	var serving sync.WaitGroup
	var accepted []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted = append(accepted, c)
			serving.Go(func() { serve(c) })
		}
	}()
	tb.Cleanup(func() {
		l.Close()
		<-ended
		for _, c := range accepted {
			c.Close()
		}
		serving.Wait()
	})
}
