package store

import (
	"context"
	"time"
)

// Turn takes a turn at work that one node does at a time, for so long, and reports whether it is
// this node's. Nobody else gets it before that time is over, also if the work is done before.
func (s *Store) Turn(ctx context.Context, work string, length time.Duration) (mine bool,
	err error) {
	err = s.doOne(ctx, func(t tx) error {
		rows, err := t.exec(`INSERT INTO turns (name, node, until) VALUES ($1, $2, @now + $3)
			ON CONFLICT (name) DO UPDATE SET node = $2, until = @now + $3
			WHERE turns.until <= @now`, work, s.node, length.Milliseconds())
		mine = rows > 0
		return err
	})
	return mine, err
}
