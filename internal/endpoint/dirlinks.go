package endpoint

import (
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
)

// dirLinks are the links below a Root that stand for the directories to which they lead, since the
// user wants that and the source has directories of these names. Nothing else below a Root follows
// a link, nor does anything below one of these.
type dirLinks struct {
	some atomic.Bool // there is one; else nobody need ask
	mu   sync.RWMutex
	kept map[string]*dirLink
}

// A dirLink is one of them.
type dirLink struct {
	info fs.FileInfo // of the directory; nil on a host
	real realPath    // on a host
}

func (l *dirLinks) keep(name string, to *dirLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = make(map[string]*dirLink)
	}
	l.kept[name] = to
	l.some.Store(true)
}

// of returns what is known about a name that is one of them, nil if it is not.
func (l *dirLinks) of(name string) *dirLink {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.kept[name]
}

// above returns the nearest of them on the way to a name, which may be the name itself; "." if
// there is none.
func (l *dirLinks) above(name string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for name != "." && l.kept[name] == nil {
		name = path.Dir(name)
	}
	return name
}
