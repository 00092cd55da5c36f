package connect

import (
	"context"
	"sync"

	"github.com/usftp/usftp/dial"
)

// A floor is what one login at a time has while it asks a person. Two hosts are logged in to side
// by side, and who has begun to ask keeps the floor until that login is over: a password would else
// be typed at the question of another host.
type floor chan struct{}

// config is a configuration for one host, whose questions wait for the floor. logged is to be
// called when the login is over; what is asked later has the floor for that question only.
func (f floor) config(c *dial.Config) (own *dial.Config, logged func()) {
	if c == nil || c.Prompter == nil {
		return c, func() {}
	}
	own = new(*c)
	s := &speaker{floor: f, prompter: c.Prompter}
	own.Prompter = s
	return own, s.logged
}

// speaker asks for one host.
type speaker struct {
	floor    floor
	prompter dial.Prompter

	mu   sync.Mutex // a Dialer asks one question at a time
	has  bool
	over bool // the login is
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
	case s.floor <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = true
	return nil
}

// leave gives the floor back once the login is over.
func (s *speaker) leave(over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over = s.over || over; s.over && s.has {
		s.has = false
		<-s.floor
	}
}

func (s *speaker) logged() { s.leave(true) }
