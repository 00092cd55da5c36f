package objectfs

import (
	"errors"
	"sync"
	"time"
)

// mostIdle is how long a client may send nothing to an upload while others wait for the memory
// that the upload holds. Without a limit, a few open files that nobody writes to would stop the
// uploads of all other users.
const mostIdle = time.Minute

var errIdle = errors.New("others needed the memory of this upload after nothing had come for a" +
	" minute: upload the file again")

// holders are the writers that hold memory.
type holders struct {
	mu  sync.Mutex
	all map[*writer]struct{}
}

func (h *holders) add(w *writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[*writer]struct{}{}
	}
	h.all[w] = struct{}{}
}

func (h *holders) remove(w *writer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, w)
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

// takeBack takes the memory of all idle uploads, which fail.
func (h *holders) takeBack() {
	h.mu.Lock()
	all := make([]*writer, 0, len(h.all))
	for w := range h.all {
		all = append(all, w)
	}
	h.mu.Unlock()
	for _, w := range all {
		// The lock of an upload that is not idle may be held for as long as a request takes.
		if w.mu.TryLock() {
			w.endIfIdle()
			w.mu.Unlock()
		}
	}
}

// endIfIdle ends an upload whose client has sent nothing for long. The caller holds the lock.
func (w *writer) endIfIdle() {
	if w.taking || w.sending() > 0 || time.Since(w.wrote) < mostIdle {
		return
	}
	w.err = errIdle
	for index := range w.parts {
		w.drop(index)
	}
}
