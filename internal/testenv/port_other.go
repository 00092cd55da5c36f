//go:build !linux

package testenv

import (
	"net"
	"testing"
)

// FreePort returns a port of 127.0.0.1 for a program to listen on.
func FreePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
