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

// afterJump is how long the database's clock decides about no data's age after it has jumped by
// mostJump, so that there is time to set it right. It seems to have jumped if no node has looked at
// it meanwhile.
const (
	afterJump = 24 * time.Hour
	mostJump  = 24 * time.Hour
)

// Clock returns the time by the database's clock, and whether data may be removed for its age by it:
// if it is set ahead by mistake, all data seems to be old.
func (s *Store) Clock(ctx context.Context) (now time.Time, steady bool, err error) {
	var ms int64
	err = s.do(ctx, func(t tx) (err error) {
		ms, steady, err = s.lookAtClock(t)
		return err
	})
	if err == nil {
		s.looked.Store(true)
	}
	return time.UnixMilli(ms), steady, err
}

// lookAtClock does Clock's work. The table of changes has the time of the last look, which is stored
// once a minute, and from when on the clock is to be believed again.
func (s *Store) lookAtClock(t tx) (now int64, steady bool, err error) {
	var last, until int64
	if _, err := t.one(`SELECT @now,
		coalesce((SELECT n FROM changes WHERE topic = 'clock'), 0),
		coalesce((SELECT n FROM changes WHERE topic = 'clock steady'), 0)`, nil, &now, &last,
		&until); err != nil {
		return 0, false, err
	}
	note := func(topic string, n int64) error {
		return t.run(`INSERT INTO changes (topic, n) VALUES ($1, $2)
			ON CONFLICT (topic) DO UPDATE SET n = excluded.n`, topic, n)
	}
	passed := time.Duration(now-last) * time.Millisecond
	if last > 0 && passed.Abs() > mostJump {
		left := until - last
		if until = now + afterJump.Milliseconds(); !s.looked.Load() && passed > 0 && left > 0 {
			until = now + left // if no node runs for a whole day, the days add up
		}
		s.log.Warn("nothing is removed for its age for a while: no node has run, or the clock has"+
			" jumped", "seconds", int(passed.Seconds()), "hours", (until-now)/time.Hour.Milliseconds())
		err = note("clock steady", until)
	}
	if err == nil && passed.Abs() > time.Minute {
		err = note("clock", now)
	}
	return now, now >= until, err
}
