//go:build linux || darwin

package sftpfs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// A prefetcher lists directories before a program that walks a tree asks for them, so that ls -R,
// find and git do not wait for one directory at a time. It starts when a program reads a directory
// and then one below it, and stops when its lists are not read.
type prefetcher struct {
	list  func(ctx context.Context, path string) (*listing, error)
	ctx   context.Context
	cache time.Duration // how long a list may be used

	mu      sync.Mutex
	next    []string             // directories that may be read next, the likeliest last
	below   map[string]bool      // directories expected to be read: whether they are in next
	lists   map[string]*prefetch // on their way, or arrived and not read yet
	names   int                  // in lists
	running int
	window  int // limits the number of lists
	expired time.Time
	idle    *time.Timer
}

// A listing is the content of a directory at some time.
type listing struct {
	entries []fileEntry
	asked   time.Time
}

// prefetch is a listing that no program has asked for yet.
type prefetch struct {
	done chan struct{} // closed when the rest is set
	*listing
	err error
}

const (
	firstPrefetched    = 8      // lists made when a program seems to walk a tree
	maxPrefetched      = 128    // lists not read yet
	maxListings        = 16     // lists on their way at once
	maxExpected        = 4096   // directories remembered to be listed
	maxNamesInList     = 2000   // names in a prefetched directory
	maxPrefetchedNames = 20_000 // names in all lists not read yet
)

func newPrefetcher(ctx context.Context, cache time.Duration,
	list func(context.Context, string) (*listing, error)) *prefetcher {
	return &prefetcher{ctx: ctx, cache: cache, list: list, below: make(map[string]bool),
		lists: make(map[string]*prefetch)}
}

// take returns a directory's prefetched list, or nil if there is none. If the list is on its way,
// take waits for it.
func (s *prefetcher) take(ctx context.Context, path string) *listing {
	s.mu.Lock()
	l := s.lists[path]
	s.drop(path)
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.err != nil || time.Since(l.asked) >= s.cache {
		return nil
	}
	return l.listing
}

// has reports whether the list of a directory has arrived or is on its way.
func (s *prefetcher) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists[path] != nil
}

// read notes that a program has read a directory, and the directories that it may read next.
func (s *prefetcher) read(path string, below []string) {
	if s.cache <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if _, expected := s.below[path]; expected { // it goes down into the tree
		s.window = min(max(2*s.window, firstPrefetched), maxPrefetched)
	}
	s.forget(path)
	s.expect(below)
	s.start()
	if s.idle == nil {
		s.idle = time.AfterFunc(2*s.cache, s.idleStop)
	} else {
		s.idle.Reset(2 * s.cache)
	}
}

// expect notes directories that may be read next. The caller holds the lock.
func (s *prefetcher) expect(below []string) {
	if over := len(s.next) + len(below) - maxExpected; over > 0 {
		over = min(over, len(s.next))
		for _, path := range s.next[:over] {
			delete(s.below, path)
		}
		s.next = slices.Delete(s.next, 0, over)
	}
	below = below[:min(len(below), maxExpected)]
	for _, path := range slices.Backward(below) {
		if _, known := s.below[path]; !known {
			s.below[path] = true
			s.next = append(s.next, path)
		}
	}
}

// forget removes a path from the expected ones. The caller holds the lock.
func (s *prefetcher) forget(path string) {
	queued := s.below[path]
	delete(s.below, path)
	for i := len(s.next) - 1; queued && i >= 0; i-- {
		if s.next[i] == path {
			s.next = slices.Delete(s.next, i, i+1)
			return
		}
	}
}

// start begins to request lists, up to the limits. The caller holds the lock.
func (s *prefetcher) start() {
	for len(s.next) > 0 && s.running < maxListings && len(s.lists) < s.window &&
		s.names < maxPrefetchedNames {
		path := s.next[len(s.next)-1]
		s.next = s.next[:len(s.next)-1]
		s.below[path] = false
		l := &prefetch{done: make(chan struct{})}
		s.lists[path] = l
		s.running++
		go s.run(path, l)
	}
}

func (s *prefetcher) run(path string, l *prefetch) {
	found, err := s.list(s.ctx, path)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.listing, l.err = found, err
	close(l.done)
	s.running--
	switch {
	case s.lists[path] != l: // taken, or dropped
	case err != nil:
		delete(s.lists, path)
		delete(s.below, path)
	default: // the directories below are read before those after it
		s.names += len(found.entries)
		s.expect(directoriesIn(path, found.entries))
	}
	s.start()
}

// drop removes a list. The caller holds the lock.
func (s *prefetcher) drop(path string) {
	l := s.lists[path]
	if l == nil {
		return
	}
	delete(s.lists, path)
	if l.listing != nil {
		s.names -= len(l.entries)
	}
}

// expire occasionally drops lists that were not read in time. The caller holds the lock.
func (s *prefetcher) expire() {
	if time.Since(s.expired) < s.cache/8 {
		return
	}
	s.expired = time.Now()
	late := false
	for path, l := range s.lists {
		select {
		case <-l.done:
			if time.Since(l.asked) >= s.cache {
				late = true
				s.drop(path)
				delete(s.below, path)
			}
		default:
		}
	}
	if late {
		if s.window /= 2; s.window < firstPrefetched/2 {
			s.stop()
		}
	}
}

// stop forgets everything. The caller holds the lock.
func (s *prefetcher) stop() {
	s.next, s.window, s.names = nil, 0, 0
	clear(s.below)
	clear(s.lists)
}

// idleStop forgets everything once no directory has been read for a while.
func (s *prefetcher) idleStop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// changed drops the list of a directory, because a name in it was changed here.
func (s *prefetcher) changed(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(path)
}

// renamed drops everything, because paths may mean other directories now.
func (s *prefetcher) renamed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// directoriesIn returns the paths of the directories among a directory's entries.
func directoriesIn(path string, entries []fileEntry) (below []string) {
	for i := range entries {
		if e := &entries[i]; e.attrs.isDir() && !strings.HasPrefix(e.name, hiddenPrefix) {
			below = append(below, join(path, e.name))
		}
	}
	return below
}
