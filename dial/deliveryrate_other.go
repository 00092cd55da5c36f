//go:build !linux

package dial

import "net"

// deliveryRate returns 0: this system does not say how fast a link is.
func deliveryRate(*net.TCPConn) float64 { return 0 }
