package testenv

import (
	"testing"

	"golang.org/x/sys/unix"
)

// FreePort returns a port of 127.0.0.1 for a program to listen on. A socket holds it until the test
// ends, so that no other program gets it. The socket does not listen and allows its address to be
// used again, so a program that does the same, as servers do, can listen there.
func FreePort(tb testing.TB) int {
	tb.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	return name.(*unix.SockaddrInet4).Port
}
