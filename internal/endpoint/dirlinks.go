package endpoint

import (
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
)

// dirLinks are the links below a Root that stand for the directories they lead to: the user wants
// that, and the source has directories of these names. No other link below a Root is followed, nor
// is any link below one of these.
type dirLinks struct {
	some atomic.Bool // there is one; otherwise no lookup is needed
	mu   sync.RWMutex
	kept map[string]*dirLink
}

// A dirLink is one such link.
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

// of returns the link of this name, or nil if it is not one of them.
func (l *dirLinks) of(name string) *dirLink {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.kept[name]
}

// above returns the nearest of the links on the way to a name, which may be the name itself, or "."
// if there is none.
func (l *dirLinks) above(name string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for name != "." && l.kept[name] == nil {
		name = path.Dir(name)
	}
	return name
}
