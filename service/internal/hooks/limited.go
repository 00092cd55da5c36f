package hooks

import (
	"sync"
	"time"
)

// limited logs something that may happen very often, at most once a minute.
type limited struct {
	mu   sync.Mutex
	last time.Time
	more int // that were left out
}

func (l *limited) log(line func(more int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.last) < time.Minute {
		l.more++
		return
	}
	line(l.more)
	l.last, l.more = time.Now(), 0
}
