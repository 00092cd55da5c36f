//go:build !windows

package dial

import (
	"context"
	"io"
	"net"
)

// dialAgent connects to an agent's socket.
func dialAgent(ctx context.Context, path string) (io.ReadWriteCloser, error) {
	return new(net.Dialer).DialContext(ctx, "unix", path)
}
