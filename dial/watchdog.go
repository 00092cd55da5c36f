package dial

import (
	"sync"
	"time"
)

// A watchdog ends a login if the server falls silent, but not while a person is being asked.
type watchdog struct {
	mu      sync.Mutex
	timer   *time.Timer
	limit   time.Duration
	doing   string
	fired   *timeoutError
	onFire  func()
	stopped bool
}

func (w *watchdog) start(onFire func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onFire = onFire
	w.timer = time.AfterFunc(w.limit, w.fire)
}

func (w *watchdog) fire() {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	w.stopped = true
	w.fired = &timeoutError{w.doing, w.limit}
	w.mu.Unlock()
	w.onFire()
}

func (w *watchdog) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

func (w *watchdog) resume(limit time.Duration, doing string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.limit, w.doing = limit, doing
	w.timer.Reset(limit)
}

// shorten moves the deadline closer. It is called before the login has made any progress, and maybe
// before it starts.
func (w *watchdog) shorten(limit time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || limit >= w.limit {
		return
	}
	w.limit = limit
	if w.timer != nil {
		w.timer.Reset(limit)
	}
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

func (w *watchdog) expired() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fired == nil {
		return nil
	}
	return w.fired
}
