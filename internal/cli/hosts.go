package cli

import (
	"context"

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

func (h *hosts) close() {
	for _, host := range h.open {
		if host.login != nil {
			host.login.Close()
		}
	}
}
