package pool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
)

const (
	// helperCommand runs usftp's server on a host. It starts in the directory where sftp-server
	// would, with the rights of the logged-in user.
	helperCommand = "usftp serve --stdio"

	// noCommand is the exit status with which POSIX's shells answer if there is no such command.
	noCommand = 127

	// helperLimit bounds how long a helper may take to start. Without one, copies are only slower.
	helperLimit = 10 * time.Second
)

// A helper is usftp's own server on a host that runs a different one, in a channel of the same
// connection.
type helper struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed once client is final
	client *usftp.Client // nil if there is none
}

// help returns the connection's helper, or nil if there is none. The first call starts it; all
// calls wait for that. There is none beside an SFTP server of the user's choice, which may run as
// another user or in a container, and so see other files.
func (l *Login) help(ctx context.Context) *usftp.Client {
	if l.config.Dial.SFTPServer != "" {
		return nil
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	h := l.helper
	if h == nil {
		own, cancel := context.WithTimeout(context.Background(), helperLimit)
		h = &helper{cancel: cancel, ready: make(chan struct{})}
		l.helper = h
		go h.start(own, l.conn, l.options(), l.logger())
	}
	l.mu.Unlock()
	select {
	case <-h.ready:
	case <-ctx.Done():
		return nil
	}
	if h.client == nil || Lost(h.client) {
		return nil
	}
	return h.client
}

func (h *helper) start(ctx context.Context, conn *dial.Conn, options []usftp.ClientOption,
	log *slog.Logger) {
	defer close(h.ready)
	defer h.cancel()
	stream, err := conn.OpenCommand(ctx, helperCommand)
	if err == nil {
		if h.client, err = stream.Client(ctx, options...); err != nil {
			stream.Close()
			if status, ended := stream.ExitStatus(); ended && status == noCommand {
				err = errors.New("it has no usftp on its PATH")
			}
		}
	}
	switch {
	case err == nil:
		log.Info("running usftp on the host for what its own server does not offer", "host",
			conn.Host(), "command", helperCommand)
	case ctx.Err() == nil: // otherwise the login was closed
		log.Info("cannot run usftp on the host: its own server does all", "host", conn.Host(),
			"reason", err)
	}
}

// hangUp ends a helper, or the attempt to start it. It returns when the client has recorded who
// ended it; the remaining work runs in work.
func (h *helper) hangUp(work *sync.WaitGroup) {
	h.cancel()
	<-h.ready
	if h.client != nil {
		work.Go(func() { h.client.Close() })
		<-h.client.Done()
	}
}
