package objectfs

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// mostIdle is how long a client may send nothing to an upload, or read nothing from a file, while
// others need the memory that it holds. Without a limit, a few idle open files would stop the
// uploads of all other users, and make each of their READs a request.
const mostIdle = time.Minute

var errIdle = errors.New("others needed the memory of this upload after nothing had come for a" +
	" minute: upload the file again")

// holder is an upload or a source that holds memory.
type holder interface{ endIfIdle() }

// holders are the holders of one kind of memory.
type holders struct {
	mu    sync.Mutex
	all   map[holder]struct{}
	taken time.Time // when takeBack last looked at all of them
}

func (h *holders) add(one holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[holder]struct{}{}
	}
	h.all[one] = struct{}{}
}

func (h *holders) remove(one holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, one)
}

// watch takes memory back from idle uploads again and again, until done is closed.
func (h *holders) watch(done <-chan struct{}) {
	ticker := time.NewTicker(mostIdle / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			h.takeBack()
		case <-done:
			return
		}
	}
}

// takeBack takes the memory of all idle holders. Uploads then fail; stretches that were fetched
// ahead are fetched again if wanted.
func (h *holders) takeBack() {
	h.mu.Lock()
	var all []holder
	if time.Since(h.taken) >= mostIdle/8 { // there may be thousands
		h.taken, all = time.Now(), slices.Collect(maps.Keys(h.all))
	}
	h.mu.Unlock()
	for _, one := range all {
		one.endIfIdle()
	}
}

// endIfIdle ends the streams from which nobody has read for long.
func (s *source) endIfIdle() {
	if !s.mu.TryLock() { // it is being read, or is the one that wants memory
		return
	}
	defer s.mu.Unlock()
	for _, q := range slices.Clone(s.streams) {
		if time.Since(q.read) >= mostIdle {
			q.forget()
		}
	}
}

// endIfIdle ends an upload whose client has sent nothing for long.
func (w *writer) endIfIdle() {
	if !w.mu.TryLock() { // it is not idle: a request may hold the lock for as long as it takes
		return
	}
	defer w.mu.Unlock()
	if w.taking || w.sending() > 0 || time.Since(w.wrote) < mostIdle {
		return
	}
	w.err = errIdle
	for index := range w.parts {
		w.drop(index)
	}
}
