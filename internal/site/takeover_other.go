//go:build !unix

package site

import (
	"context"
	"errors"
	"net"
	"os"
)

// sockets only listens: no process can take over sockets here.
type sockets struct{}

func (*sockets) inherit() error { return nil }

func (*sockets) listen(address string) (net.Listener, error) { return listenOn(address) }

func (*sockets) accepting() {}

func (*sockets) tellBefore() {}

func (*sockets) handOver(context.Context, func()) (*os.Process, error) {
	return nil, errors.ErrUnsupported
}

func restartSignals() (asked <-chan os.Signal, stop func()) { return nil, func() {} }

func tellSystemd(int) error { return nil }
