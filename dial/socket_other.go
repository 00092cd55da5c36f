//go:build !unix

package dial

import (
	"net"
	"sync"
)

// filler gives nil: without a way to wait for input and hold no buffer, x/crypto/ssh
// reads by itself.
func filler(net.Conn, *sync.Pool) func() (*[]byte, int, error) { return nil }
