package connect

import (
	"context"
	"sync"

	"github.com/usftp/usftp/dial"
)

// A promptTurn lets one login at a time ask the user. Two hosts are logged in to at the same time,
// and the first to ask keeps its turn until its login is over: otherwise a password might be typed
// at another host's prompt.
type promptTurn chan struct{}

// config returns a configuration for one host, whose prompts wait for their turn. The caller must
// call logged when the login is over; a later prompt has the turn only for itself.
func (t promptTurn) config(c *dial.Config) (own *dial.Config, logged func()) {
	if c == nil || c.Prompter == nil {
		return c, func() {}
	}
	own = new(*c)
	s := &speaker{turn: t, prompter: c.Prompter}
	own.Prompter = s
	return own, s.logged
}

// speaker asks on behalf of one host.
type speaker struct {
	turn     promptTurn
	prompter dial.Prompter

	mu   sync.Mutex // a Dialer asks one question at a time
	has  bool
	over bool // the login is over
}

func (s *speaker) Prompt(ctx context.Context, p dial.Prompt) (string, error) {
	if err := s.take(ctx); err != nil {
		return "", err
	}
	defer s.leave(false)
	return s.prompter.Prompt(ctx, p)
}

func (s *speaker) take(ctx context.Context) error {
	s.mu.Lock()
	has := s.has
	s.mu.Unlock()
	if has {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = true
	return nil
}

// leave gives up the turn once the login is over.
func (s *speaker) leave(over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over = s.over || over; s.over && s.has {
		s.has = false
		<-s.turn
	}
}

func (s *speaker) logged() { s.leave(true) }
