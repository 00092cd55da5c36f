package connect

import (
	"context"
	"errors"
	"sync"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
)

// hosts holds the connections of one run: one per host, for any number of files.
type hosts struct {
	Config  pool.ConnectConfig
	Advise  func(error) error     // adds advice to the error of a failed login; may be nil
	open    map[dial.Target]*host // by target, without a path
	prompts promptTurn
}

// A host is one login, or its error.
type host struct {
	pool.Host
	login    *pool.Login
	lent     bool // another run closes it
	Err      error
	reported bool // the error has been reported
}

func newHosts(config pool.ConnectConfig, turn promptTurn) *hosts {
	return &hosts{Config: config, open: make(map[dial.Target]*host), prompts: turn}
}

// Get connects, or returns the existing connection.
func (h *hosts) Get(ctx context.Context, t dial.Target) *host {
	h.ConnectAll(ctx, t)
	t.Path = ""
	found := h.open[t]
	if found.Err == nil {
		found.Host = found.login.Host() // the connection may have been replaced
	}
	return found
}

// Again makes the next Get log in once more if the login has failed, or if it was lost and only a
// person can replace it.
func (h *hosts) Again(t dial.Target) {
	t.Path = ""
	found := h.open[t]
	if found == nil || found.lent {
		return
	}
	if found.login != nil {
		if host := found.login.Host(); host.Redial != nil || !pool.Lost(host.Client) {
			return
		}
		found.login.Close()
	}
	delete(h.open, t)
}

// ConnectAll logs in to several hosts at the same time; Get then returns the results.
func (h *hosts) ConnectAll(ctx context.Context, targets ...dial.Target) {
	var connecting sync.WaitGroup
	for _, t := range targets {
		if t.Path = ""; h.open[t] != nil {
			continue
		}
		made := &host{Host: pool.Host{Name: t.UserHost()}}
		h.open[t] = made
		connecting.Go(func() {
			config := h.Config
			var logged func()
			config.Dial, logged = h.prompts.config(config.Dial)
			defer logged()
			made.login, made.Err = pool.Connect(ctx, t, config)
			if h.Advise != nil && made.Err != nil {
				made.Err = h.Advise(made.Err)
			}
		})
	}
	connecting.Wait()
}

// Lend lets another run use the connections, which must stay open until that run is over.
func (h *hosts) Lend(to *hosts) {
	for t, found := range h.open {
		to.open[t] = &host{Host: found.Host, login: found.login, lent: true, Err: found.Err}
	}
}

// ErrHostLost keeps the remaining files from being tried on a host whose connection is lost for
// good, which the copy that noticed has reported: otherwise each of thousands of files would find
// out by itself, with all its retries.
var ErrHostLost = errors.New("the connection was lost")

// CheckAll checks, after a copy has failed with err, whether the connections still exist, or can be
// replaced: the copy may have gone on over another connection, and failed for another reason.
func (h *hosts) CheckAll(err error) {
	gaveUp := ui.CodeOf(err) == ui.ExitNoHost
	for _, found := range h.open {
		if found.Err != nil {
			continue
		}
		host := found.login.Host()
		if pool.Lost(host.Client) && (gaveUp || host.Redial == nil) {
			found.Err, found.reported = ErrHostLost, true
		}
	}
}

func (h *hosts) Close() {
	for _, host := range h.open {
		if host.login != nil && !host.lent {
			host.login.Close()
		}
	}
}
