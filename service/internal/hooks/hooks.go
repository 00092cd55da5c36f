// Package hooks tells programs and web services of events about files, at least once, by way of the
// store's outbox.
package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/service/internal/store"
)

// A Hook is a program or web service, with the events that it is told of.
type Hook struct {
	Name  string
	On    []Kind
	Users []string // whose events; none means everybody's

	URL     string   // to which events are posted, or
	Command []string // a program that is run for each, with its arguments, or
	Clamd   string   // the address of ClamAV's daemon, for accept

	MaxSize         int64 // of a file that is checked by accept
	AcceptUnchecked bool  // files that could not be checked appear

	Secret  []byte        // signs posts, if not empty
	Timeout time.Duration // of one try
	GiveUp  time.Duration // how long a message is tried
	AtOnce  int           // messages being delivered at once, by each node
}

// Defaults of optional fields.
const (
	UsualTimeout = 10 * time.Second
	UsualGiveUp  = 24 * time.Hour
	UsualAtOnce  = 4
)

func (h *Hook) wants(kind Kind, user string) bool {
	return slices.Contains(h.On, kind) && (len(h.Users) == 0 || slices.Contains(h.Users, user))
}

// Hooks passes events to all hooks that want them.
type Hooks struct {
	hooks []*Hook
	gates []*gatekeeper // of hooks that are asked
	store *store.Store
	log   *slog.Logger
	lost  limited

	guarding sync.Mutex
	open     map[weak.Pointer[osfs.FS]]*openFiles

	// Root returns the root that holds a path of a user, and the path of the folder whose root that
	// is. It may be changed before Run.
	Root func(user, path string) (root, folder string)

	// Tell, if not nil, is called with the outcome of each attempt.
	Tell func(hook string, outcome Outcome)
}

// New returns hooks that share a store, which may be nil if all are asked to accept.
func New(hooks []*Hook, s *store.Store, log *slog.Logger) *Hooks {
	h := &Hooks{store: s, log: log, Root: func(string, string) (string, string) { return "", "/" }}
	for _, hook := range hooks {
		hook.GiveUp = cmp.Or(hook.GiveUp, UsualGiveUp)
		hook.AtOnce = cmp.Or(hook.AtOnce, UsualAtOnce)
		if slices.Contains(hook.On, Accept) {
			hook.Timeout = cmp.Or(hook.Timeout, UsualAcceptTimeout)
			h.gates = append(h.gates, newGatekeeper(h, hook))
			continue
		}
		hook.Timeout = cmp.Or(hook.Timeout, UsualTimeout)
		h.hooks = append(h.hooks, hook)
	}
	return h
}

func (h *Hooks) tell(hook string, outcome Outcome) {
	if h.Tell != nil {
		h.Tell(hook, outcome)
	}
}

// messages returns the messages about an event, one for each hook that wants it.
func (h *Hooks) messages(e server.Event) (all []store.Message) {
	kind := kindOf(e)
	if kind == "" {
		return nil
	}
	var text []byte
	for _, hook := range h.hooks {
		if !hook.wants(kind, e.User) {
			continue
		}
		if text == nil {
			root, folder := h.Root(e.User, e.Path)
			text, _ = json.Marshal(newEvent(kind, e, root, folder)) // it has nothing that fails
		}
		all = append(all, store.Message{Hook: hook.Name, User: e.User, Event: string(text)})
	}
	return all
}

// Gate is the [server.Gate]: a change is in the outbox before it is made.
func (h *Hooks) Gate(e server.Event) (end func(error), err error) {
	messages := h.messages(e)
	if len(messages) == 0 {
		return func(error) {}, nil
	}
	ended, err := h.store.Announce(context.Background(), messages...)
	if err != nil {
		h.lost.log(func(more int) {
			h.log.Error("no changes are made that hooks could not be told of", "error", err, "more",
				more)
		})
		return nil, err
	}
	return func(err error) {
		switch {
		case err == nil:
			ended(store.Made)
		case errors.Is(err, server.ErrUnsure), e.Kind == server.FileClosed &&
			!errors.Is(err, fs.ErrExist) && !errors.As(err, new(*notAccepted)):
			ended(store.Unsure) // the storage may have answered too late
		default:
			ended(store.NotMade)
		}
	}, nil
}

// Event posts events about which the gate is not asked.
func (h *Hooks) Event(e server.Event) {
	if gated(e) {
		return
	}
	messages := h.messages(e)
	if len(messages) == 0 {
		return
	}
	if err := h.store.Post(context.Background(), messages...); err != nil {
		h.lost.log(func(more int) {
			h.log.Error("hooks are not told of an event", "event", e.Kind, "user", e.User, "error",
				err, "more", more)
		})
	}
}

// gated reports whether the gate was asked about an event.
func gated(e server.Event) bool {
	return e.Kind == server.TreeChanged || e.Kind == server.FileClosed && e.Upload
}
