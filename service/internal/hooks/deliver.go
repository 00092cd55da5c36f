package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/usftp/usftp/service/internal/store"
)

// An Outcome is the result of an attempt to deliver.
type Outcome string

const (
	Delivered Outcome = "delivered"
	Failed    Outcome = "failed" // and will be tried again
	Dead      Outcome = "dead"
)

const (
	// look is how often a node looks for messages that other nodes have posted, or that are due
	// again.
	look = time.Second

	// margin is the time for everything else that a node does with a message besides delivering it.
	margin = 10 * time.Second

	// longestWait is how long a message waits for its next try at most.
	longestWait = 15 * time.Minute

	// parting is how long deliveries may continue when the server ends.
	parting = 5 * time.Second
)

// Run delivers messages until ctx ends.
func (h *Hooks) Run(ctx context.Context) {
	if len(h.hooks) == 0 {
		return
	}
	var ended sync.WaitGroup
	defer ended.Wait()
	var wakes []chan struct{}
	for _, hook := range h.hooks {
		w := newWorker(h, hook)
		wakes = append(wakes, w.wake)
		ended.Go(func() { w.run(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.store.Posted():
		}
		for _, wake := range wakes {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}
}

// worker delivers the messages for one hook.
type worker struct {
	*Hook
	all    *Hooks
	log    *slog.Logger
	send   sender
	wake   chan struct{}
	done   chan struct{}
	deaths limited
	fails  limited

	mu      sync.Mutex
	failing bool
}

// A sender delivers an event once.
type sender interface {
	send(ctx context.Context, e *Event) error
}

func newWorker(all *Hooks, hook *Hook) *worker {
	w := &worker{Hook: hook, all: all, log: all.log.With("hook", hook.Name),
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	if hook.URL != "" {
		w.send = newPoster(hook)
	} else {
		w.send = &commander{hook}
	}
	return w
}

// run takes messages and delivers them, several at once.
func (w *worker) run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(parting, stop) })()
	tick := time.NewTicker(look)
	defer tick.Stop()
	running, ends := 0, ctx.Done()
	for ctx.Err() == nil || running > 0 {
		if running < w.AtOnce && ctx.Err() == nil {
			taken, _ := w.all.store.Take(ctx, w.Name, w.AtOnce-running, w.Timeout+margin)
			for _, m := range taken {
				running++
				go func() {
					w.deliver(sending, m)
					w.done <- struct{}{}
				}()
			}
		}
		select {
		case <-w.done:
			running--
		case <-w.wake:
		case <-tick.C:
		case <-ends:
			ends = nil
		}
	}
}

// deliver tries to deliver a message, and tells the store. If the store does not answer, the
// message is delivered again.
func (w *worker) deliver(ctx context.Context, m store.Message) {
	err := w.try(ctx, m)
	settling := context.WithoutCancel(ctx)
	switch {
	case err == nil:
		w.works(true, nil)
		w.all.store.Delivered(settling, m)
		w.all.tell(w.Name, Delivered)
		return
	case ctx.Err() != nil: // the server ends
		w.all.store.GiveBack(settling, m)
		return
	}
	outcome := Failed
	if dead, _ := w.all.store.Failed(settling, m, w.backoff(m.Tries), w.GiveUp, err); dead {
		outcome = Dead
	}
	if w.works(false, err); outcome == Dead {
		w.deaths.log(func(more int) {
			w.log.Error("an event was not delivered; usftpd hooks list shows it", "id", m.ID,
				"tries", m.Tries+1, "error", err, "more", more)
		})
	}
	w.all.tell(w.Name, outcome)
}

// works logs when the hook begins to fail, and when it works again. If it fails again within a
// minute, that is logged once it fails after that.
func (w *worker) works(works bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if works != w.failing {
		return
	}
	if works {
		w.failing = false
		w.log.Info("the hook works again")
		return
	}
	w.fails.log(func(more int) {
		w.failing = true
		w.log.Warn("a hook fails; events wait", "error", err, "more", more)
	})
}

// try tries once to deliver a message.
func (w *worker) try(ctx context.Context, m store.Message) error {
	var e Event
	if err := json.Unmarshal([]byte(m.Event), &e); err != nil {
		return fmt.Errorf("the event cannot be read: %w", err)
	}
	e.complete(m.ID, m.Unsure)
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	err := w.send.send(ctx, &e)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("not done within %s", w.Timeout)
	}
	return err
}

// backoff returns how long to wait after so many tries: twice as long each time, with some jitter,
// so that messages that failed together do not come back together.
func (w *worker) backoff(tries int) time.Duration {
	wait := time.Second << min(tries, 20)
	return time.Duration(float64(min(wait, longestWait)) * (0.8 + 0.4*rand.Float64()))
}
