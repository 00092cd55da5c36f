package shell

import (
	"context"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
)

// listings are recently read directories of the host, for completion. Other goroutines read them,
// so that typing never waits, and a Tab only for a moment. It is nil in a batch: nobody types.
type listings struct {
	client func() (client *usftp.Client, dir string) // client is nil without a connection

	mu   sync.Mutex
	dirs map[string]*listing // by absolute path
}

// A listing holds the entries of a directory.
type listing struct {
	read    time.Time // when it arrived; zero before that
	entries []complete.Entry
	arrived chan struct{} // closed when it has arrived or failed; nil in the one that arrived
}

const (
	listingWait  = time.Second / 2  // how long a Tab waits for one
	listingGood  = 20 * time.Second // how long a listing is used
	listingLimit = 5 * time.Second  // how long reading one may take
	listingsKept = 64
)

func newListings(client func() (*usftp.Client, string)) *listings {
	return &listings{client: client, dirs: make(map[string]*listing)}
}

// get returns the known entries of a directory, and starts to read it if they are missing or old.
func (l *listings) get(dir string) (entries []complete.Entry) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.dirs[dir]
	if have != nil {
		entries = have.entries
	}
	if have == nil || !have.read.IsZero() && time.Since(have.read) > listingGood {
		l.fetch(dir, entries)
	}
	return entries
}

// await returns the entries of a directory, for which it may wait for a moment.
func (l *listings) await(dir string) []complete.Entry {
	entries := l.get(dir)
	if l == nil || entries != nil {
		return entries
	}
	l.mu.Lock()
	coming := l.dirs[dir]
	l.mu.Unlock()
	if coming == nil || coming.arrived == nil {
		return nil
	}
	select {
	case <-coming.arrived:
	case <-time.After(listingWait):
	}
	return l.get(dir)
}

// changed invalidates all listings after a change on the host, and reads the current directory
// again.
func (l *listings) changed() {
	if l == nil {
		return
	}
	_, dir := l.client()
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.dirs)
	l.fetch(dir, nil)
}

// fetch reads a directory, if there is a connection; until it arrives, entries are used. The caller
// holds the lock.
func (l *listings) fetch(dir string, entries []complete.Entry) {
	client, _ := l.client()
	if client == nil {
		return
	}
	if len(l.dirs) >= listingsKept {
		clear(l.dirs)
	}
	coming := &listing{entries: entries, arrived: make(chan struct{})}
	l.dirs[dir] = coming
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), listingLimit)
		defer cancel()
		defer close(coming.arrived)
		read := complete.List(client.WithContext(ctx), dir, func(string) bool { return true })
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.dirs[dir] == coming { // otherwise the host has changed meanwhile
			l.dirs[dir] = &listing{read: time.Now(), entries: read}
		}
	}()
}
