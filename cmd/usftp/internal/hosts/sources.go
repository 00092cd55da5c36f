package hosts

import (
	"context"
	"slices"
	"strings"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Sources holds the sources copied to each of several hosts, from this machine or from other hosts.
// Each file is read once. Other hosts are logged in to once, and all copies use that connection.
type Sources struct {
	*transfer.Shared
	task   *connect.Task // holds the connections to other hosts
	others map[dial.Target]*transfer.SharedHost
	places []string // where the sources are, for people
}

// NewSources logs in to the hosts that the places name.
func NewSources(ctx context.Context, a *ui.App, config pool.ConnectConfig,
	places []connect.Place) (*Sources, error) {
	s := &Sources{Shared: transfer.NewShared(0), others: make(map[dial.Target]*transfer.SharedHost)}
	s.task = connect.NewTask(ctx, a, config, nil)
	var targets []dial.Target
	for _, p := range places {
		where := "this machine"
		if p.Remote {
			where = p.Target.UserHost()
			p.Target.Path = ""
			targets = append(targets, p.Target)
		}
		if !slices.Contains(s.places, where) {
			s.places = append(s.places, where)
		}
	}
	s.task.Hosts.ConnectAll(ctx, targets...)
	for _, t := range targets {
		host := s.task.Hosts.Get(ctx, t)
		if host.Err != nil {
			s.Close()
			return nil, host.Err
		}
		s.others[t] = s.Shared.Host(host.Host)
	}
	return s, nil
}

// Lend lets a host's part of the copy use the connections to other hosts.
func (s *Sources) Lend(t *connect.Task) { s.task.Hosts.Lend(t.Hosts) }

// Open returns the endpoint for a source; see [connect.Open].
func (s *Sources) Open(p connect.Place, host pool.Host, path string) transfer.Endpoint {
	p.Target.Path = ""
	switch other := s.others[p.Target]; {
	case !p.Remote:
		return s.Local(path)
	case other != nil:
		return other.Remote(path)
	}
	return connect.Open(p, host, path)
}

// Read describes how much was read, and where.
func (s *Sources) Read() string {
	return ui.Amount(float64(s.BytesRead())) + " read on " + strings.Join(s.places, " and ")
}

// Close ends the connections to other hosts. No copy may be running.
func (s *Sources) Close() {
	s.Shared.Close()
	s.task.Hosts.Close()
}
