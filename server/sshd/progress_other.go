//go:build !linux

package sshd

import "net"

// acknowledged is not available here.
func acknowledged(net.Conn) (bytes uint64, waiting bool) { return 0, false }
