package objectfs

import "sync"

// directories caches the directories known to exist, so that not every new file costs a listing of
// its directory. A stale entry does no harm: a directory that another server has removed comes back
// with the file.
type directories struct {
	mu   sync.Mutex
	keys map[string]bool
}

// mostKnown limits the number of entries.
const mostKnown = 1024

func (d *directories) has(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[key]
}

func (d *directories) add(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil || len(d.keys) >= mostKnown {
		d.keys = map[string]bool{}
	}
	d.keys[key] = true
}

// forget drops all entries: something was removed or renamed.
func (d *directories) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = nil
}
