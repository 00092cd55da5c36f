package shell

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp"
)

// listings are directories of the host that were read lately, for completion. They are read on
// other goroutines: whoever types does not wait.
type listings struct {
	session *session
	arrived func() // is called when one that was asked for has come

	mu   sync.Mutex
	dirs map[string]*listing // by absolute path
	age  int                 // counts what made all of them old
}

// A listing is the names in a directory.
type listing struct {
	read    time.Time // when it came; zero while it is under way
	names   []entry
	partial bool
}

// An entry is a name. Directories, and links to some, are shown with a slash.
type entry struct {
	name      string
	directory bool
}

const (
	listingGood  = 20 * time.Second // how long a listing is believed
	listingLimit = 5 * time.Second  // how long one may take
	listingMost  = 20_000           // names
	listingsKept = 64
	linksAsked   = 256 // of a listing, to find out which lead to directories
)

func newListings(s *session) *listings {
	return &listings{session: s, arrived: func() {}, dirs: make(map[string]*listing)}
}

// get returns the names in a directory. If they are not known it has them read, and pending is
// true: arrived will be called.
func (l *listings) get(dir string) (names []entry, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.dirs[dir]
	switch {
	case have == nil || !have.read.IsZero() && time.Since(have.read) > listingGood:
		return nil, l.fetch(dir)
	case have.read.IsZero():
		return nil, true
	}
	return have.names, false
}

// prefetch has a directory read that will probably be asked for.
func (l *listings) prefetch(dir string) { l.get(dir) }

// forget forgets all that was read: something has changed on the host.
func (l *listings) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.dirs)
	l.age++
}

// fetch reads a directory, if there is a connection. The caller holds the lock.
func (l *listings) fetch(dir string) bool {
	client, _ := l.session.client()
	if client == nil {
		return false
	}
	if len(l.dirs) >= listingsKept {
		clear(l.dirs)
	}
	age := l.age
	l.dirs[dir] = new(listing)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), listingLimit)
		defer cancel()
		read := readListing(client.WithContext(ctx), dir)
		l.mu.Lock()
		if l.age == age {
			l.dirs[dir] = read
		}
		l.mu.Unlock()
		l.arrived()
	}()
	return true
}

// readListing reads a directory as far as time and memory allow.
func readListing(client *usftp.Client, dir string) *listing {
	l := &listing{}
	var links []int
	for f, err := range client.Entries(dir) {
		if err != nil || len(l.names) >= listingMost {
			l.partial = true
			break
		}
		if f.Mode()&fs.ModeSymlink != 0 && len(links) < linksAsked {
			links = append(links, len(l.names))
		}
		l.names = append(l.names, entry{f.BaseName(), f.IsDir()})
	}
	asked := make([]*usftp.Pending[fs.FileInfo], len(links))
	for i, at := range links {
		asked[i] = client.Async().Stat(path.Join(dir, l.names[at].name))
	}
	for i, at := range links {
		if info, err := asked[i].Wait(); err == nil {
			l.names[at].directory = info.IsDir()
		}
	}
	slices.SortFunc(l.names, func(a, b entry) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	l.read = time.Now()
	return l
}
