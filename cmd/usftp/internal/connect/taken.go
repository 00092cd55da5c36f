package connect

import (
	"errors"
	"io/fs"
	"os"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/samename"
)

// Taken holds the sources of copies by the names that they have got in one directory, which may
// treat several names as one.
type Taken[Source any] map[string][]taken[Source]

type taken[Source any] struct {
	name   string
	source Source
}

// Add notes a copy.
func (t Taken[S]) Add(name string, source S) {
	form := samename.Form(name)
	t[form] = append(t[form], taken[S]{name, source})
}

// Exactly returns the last source whose copy has exactly this name.
func (t Taken[S]) Exactly(name string) (source S, ok bool) {
	for _, c := range t[samename.Form(name)] {
		if c.name == name {
			source, ok = c.source, true
		}
	}
	return source, ok
}

// Spelled returns the source of a copy whose name the directory treats as this one, though they
// differ. The directory is local if client is nil. If that cannot be found out, it is assumed.
func (t Taken[S]) Spelled(name string, client *usftp.Client, dir string) (source S, ok bool) {
	for _, c := range t[samename.Form(name)] {
		if c.name != name && !areTwo(client, dir, c.name, name) {
			return c.source, true
		}
	}
	return source, false
}

// areTwo reports whether two names, the first of which belongs to a copied file, are distinct.
func areTwo(client *usftp.Client, dir, first, second string) bool {
	lstat := os.Lstat
	if client != nil {
		lstat = client.Lstat
	}
	_, err := lstat(Below(dir, second))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	there := 0 // the second is another file if both are listed
	if client == nil {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() == first || e.Name() == second {
				there++
			}
		}
		return there == 2
	}
	for e, err := range client.Entries(dir) {
		if err == nil && (e.BaseName() == first || e.BaseName() == second) {
			there++
		}
	}
	return there == 2
}
