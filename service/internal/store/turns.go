package store

import (
	"context"
	"time"
)

// Turn takes a turn of the given length at work that one node does at a time, and reports whether
// this node got it. No other node gets it before the turn is over, even if the work is done
// earlier. A turn that is over much later is from before the database's clock was set back.
func (s *Store) Turn(ctx context.Context, work string, length time.Duration) (mine bool,
	err error) {
	err = s.doOne(ctx, func(t tx) error {
		rows, err := t.exec(`INSERT INTO turns (name, node, until) VALUES ($1, $2, @now + $3)
			ON CONFLICT (name) DO UPDATE SET node = $2, until = @now + $3
			WHERE turns.until <= @now OR turns.until > @now + 2*$3`, work, s.node,
			length.Milliseconds())
		mine = rows > 0
		return err
	})
	return mine, err
}
