//go:build !linux

package dial

import "net"

// deliveryRate returns 0: this system does not report a link's speed.
func deliveryRate(*net.TCPConn) float64 { return 0 }
