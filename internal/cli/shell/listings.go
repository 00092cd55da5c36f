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

// listings are recently read directories of the host, for completion. Other goroutines read them,
// so that typing never waits. It is nil in a batch, where nobody types.
type listings struct {
	client func() (client *usftp.Client, dir string) // client is nil without a connection

	mu   sync.Mutex
	dirs map[string]*listing // by absolute path
	age  int                 // raised to invalidate all of them
}

// A listing is the names in a directory.
type listing struct {
	read   time.Time // when it arrived; zero before that
	names  []entry
	coming bool // being read
}

// An entry is a name. Directories, and links to directories, are shown with a slash.
type entry struct {
	name      string
	directory bool
}

const (
	listingGood  = 20 * time.Second // how long a listing is used
	listingLimit = 5 * time.Second  // how long reading one may take
	listingMost  = 20_000           // names
	listingsKept = 64
	linksAsked   = 256 // links per listing that are checked for pointing to directories
)

func newListings(client func() (*usftp.Client, string)) *listings {
	return &listings{client: client, dirs: make(map[string]*listing)}
}

// get returns what is known about a directory, and starts to read it if that is nothing or old.
func (l *listings) get(dir string) (names []entry) {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.dirs[dir]
	if have != nil {
		names = have.names
	}
	if have == nil || !have.coming && time.Since(have.read) > listingGood {
		l.fetch(dir, names)
	}
	return names
}

// changed invalidates all listings, because something has changed on the host, and reads the
// current directory again.
func (l *listings) changed() {
	if l == nil {
		return
	}
	_, dir := l.client()
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.dirs)
	l.age++
	l.fetch(dir, nil)
}

// fetch reads a directory, if there is a connection; until it arrives, names are used. The caller
// holds the lock.
func (l *listings) fetch(dir string, names []entry) {
	client, _ := l.client()
	if client == nil {
		return
	}
	if len(l.dirs) >= listingsKept {
		clear(l.dirs)
	}
	age := l.age
	l.dirs[dir] = &listing{names: names, coming: true}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), listingLimit)
		defer cancel()
		read := readListing(client.WithContext(ctx), dir)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.age == age {
			l.dirs[dir] = read
		}
	}()
}

// readListing reads as much of a directory as time and memory allow.
func readListing(client *usftp.Client, dir string) *listing {
	l := &listing{}
	var links []int
	for f, err := range client.Entries(dir) {
		if err != nil || len(l.names) >= listingMost {
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
