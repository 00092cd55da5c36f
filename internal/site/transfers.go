package site

import (
	"context"
	"sync"
	"time"

	"github.com/usftp/usftp/server"
)

// Transfers limit the bytes of contents that a user sends and fetches in each day or month, by UTC.
// 0 means no limit.
type Transfers struct {
	Up, Down int64
	Daily    bool
}

// TransferTree begins the names of the accounts of transfers. The day or month, the direction and
// the user follow.
const TransferTree = "transfers://"

// transfers returns the accounts for a user's uploads and downloads, or nil.
func (s *Site) transfers(user string, t Transfers) (up, down server.Account) {
	s.counting.Lock()
	defer s.counting.Unlock()
	period := "2006-01"
	if t.Daily {
		period = time.DateOnly
	}
	account := func(direction string, most int64) server.Account {
		if most == 0 {
			return nil
		}
		key := periodic{period: period, name: "/" + direction + "/" + user}
		p := s.periods[key]
		switch {
		case p != nil && p.most == most:
		case p != nil && s.Shared == nil: // what has been moved counts on after a reload
			p = p.withLimit(most)
		default:
			p = &periodAccount{periodic: key, most: most, shared: s.Shared}
		}
		if s.periods == nil {
			s.periods = map[periodic]*periodAccount{}
		}
		s.periods[key] = p
		return p
	}
	return account("up", t.Up), account("down", t.Down)
}

// moved returns the bytes that a user has sent and fetched in this period.
func (s *Site) moved(user string, t Transfers) (up, down server.Usage) {
	sent, fetched := s.transfers(user, t)
	return known(sent), known(fetched)
}

// known returns the usage of an account of transfers, without asking the store: many users have
// moved nothing here.
func known(account server.Account) server.Usage {
	p, ok := account.(*periodAccount)
	if !ok {
		return server.Usage{}
	}
	if p.mu.TryLock() {
		defer p.mu.Unlock()
		if p.account != nil && p.now == time.Now().UTC().Format(p.period) {
			return p.account.Usage()
		}
	}
	return server.Usage{MaxBytes: p.most}
}

// periodic identifies what an account counts.
type periodic struct{ period, name string }

// periodAccount is an account that starts over each day or month.
type periodAccount struct {
	periodic
	most   int64
	shared Shared // or nil

	mu      sync.Mutex
	now     string
	account server.Account
}

// withLimit returns an account of the same count, which is in memory, with another limit.
func (p *periodAccount) withLimit(most int64) *periodAccount {
	p.mu.Lock()
	defer p.mu.Unlock()
	other := &periodAccount{periodic: p.periodic, most: most, now: p.now}
	if p.account != nil {
		other.account = p.account.(server.Limitable).WithLimits(most, 0)
	}
	return other
}

func (p *periodAccount) current() server.Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now().UTC().Format(p.period); p.now != now {
		p.now = now
		if p.shared != nil {
			p.account = p.shared.Account(TransferTree+now+p.name, p.most, 0)
		} else {
			p.account = server.NewAccount(p.most, 0)
		}
	}
	return p.account
}

// Reserve implements [server.Account].
func (p *periodAccount) Reserve(ctx context.Context, bytes, files int64) error {
	return p.current().Reserve(ctx, bytes, files)
}

// Settle implements [server.Account].
func (p *periodAccount) Settle(bytes, files int64) { p.current().Settle(bytes, files) }

// Usage implements [server.Account].
func (p *periodAccount) Usage() server.Usage { return p.current().Usage() }
