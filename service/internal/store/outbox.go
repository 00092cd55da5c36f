package store

import (
	"context"
	"crypto/rand"
	"time"
)

// A Message is an event that waits to be delivered.
type Message struct {
	ID    string // by which its receivers tell duplicates
	Made  time.Time
	Event string
}

// Post puts events into the outbox, all or none.
func (s *Store) Post(ctx context.Context, events ...string) error {
	return s.do(ctx, func(t tx) error {
		for _, event := range events {
			if _, err := t.exec(`INSERT INTO outbox (id, made, until, event)
				VALUES ($1, @now, 0, $2)`, rand.Text(), event); err != nil {
				return err
			}
		}
		return nil
	})
}

// Take takes the oldest messages, but at most so many, for a while in which no other node gets
// them. What is not Delivered by then is taken again: each is delivered at least once.
func (s *Store) Take(ctx context.Context, most int, while time.Duration) (taken []Message,
	err error) {
	err = s.do(ctx, func(t tx) error {
		taken = nil
		var one Message
		var made int64
		return t.each(`UPDATE outbox SET until = @now + $1 WHERE id IN (SELECT id FROM outbox
			WHERE until <= @now ORDER BY made, id LIMIT $2 @skip) RETURNING id, made, event`,
			[]any{while.Milliseconds(), most}, []any{&one.ID, &made, &one.Event}, func() {
				one.Made = time.UnixMilli(made)
				taken = append(taken, one)
			})
	})
	return taken, err
}

// Delivered removes messages from the outbox.
func (s *Store) Delivered(ctx context.Context, messages ...Message) error {
	return s.do(ctx, func(t tx) error {
		for _, one := range messages {
			if _, err := t.exec(`DELETE FROM outbox WHERE id = $1`, one.ID); err != nil {
				return err
			}
		}
		return nil
	})
}
