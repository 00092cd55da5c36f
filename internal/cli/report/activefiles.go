package report

import (
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/usftp/usftp/internal/cli/ui"
)

// underWay are the few files of a tree that the second line shows: the large ones being copied, and
// the small one started last, which stands for all in flight.
type underWay struct {
	root  string // the tree's source
	large []string
	small string
}

// began notes that a file of a tree has begun.
func (l *progressLine) began(source string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under.small = source
}

// text names the files, relative to the tree's source.
func (u *underWay) text(width int) string {
	names := u.large
	if len(names) == 0 && u.small != "" {
		names = []string{u.small}
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = strings.TrimLeft(strings.TrimPrefix(name, u.root), `/\`)
	}
	return runewidth.Truncate("  "+ui.Printable(strings.Join(short, ", ")), max(0, width), "…")
}
