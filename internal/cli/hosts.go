package cli

import (
	"context"
	"errors"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/transfer"
)

// hosts holds the connections of one run: one for each host, however many files are copied.
type hosts struct {
	config transfer.ConnectConfig
	open   map[dial.Target]*host // by target, without a path
}

// A host is one login, or why there is none.
type host struct {
	transfer.Host
	login *transfer.Login
	err   error
}

func newHosts(config transfer.ConnectConfig) *hosts {
	return &hosts{config: config, open: make(map[dial.Target]*host)}
}

// get connects, or gives the connection that there is. told is true where its error was returned before.
func (h *hosts) get(ctx context.Context, t dial.Target) (found *host, told bool) {
	t.Path = ""
	if found, ok := h.open[t]; ok {
		if found.err == nil {
			found.Host = found.login.Host() // it may have been made anew
		}
		return found, found.err != nil
	}
	found = new(host)
	if found.login, found.err = transfer.Connect(ctx, t, h.config); found.err == nil {
		found.Host = found.login.Host()
	} else {
		found.Name = t.UserHost()
	}
	h.open[t] = found
	return found, false
}

// errHostLost keeps what is left from being tried on a host whose connection was lost and could not be made anew, as the copy that had it has said:
// each of thousands of files would have to find that out by itself, with all the tries that are allowed.
var errHostLost = errors.New("the connection was lost")

// checkAll looks whether the connections are still there, after a copy that has failed.
func (h *hosts) checkAll() {
	for _, host := range h.open {
		if host.err != nil {
			continue
		}
		select {
		case <-host.login.Host().Client.Done():
			host.err = errHostLost
		default:
		}
	}
}

func (h *hosts) close() {
	for _, host := range h.open {
		if host.login != nil {
			host.login.Close()
		}
	}
}
