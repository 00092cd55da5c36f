package complete

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp"
)

// An Entry is a name in a directory.
type Entry struct {
	Name string
	Dir  bool // a directory, or a link to one
}

const (
	mostEntries = 20_000
	mostLinks   = 1000 // links of a directory that are checked for leading to directories
)

// List returns the wanted entries of a directory on a host, sorted by name. If the client's context
// ends it returns the entries that have arrived.
func List(client *usftp.Client, dir string, wanted func(name string) bool) []Entry {
	var entries []Entry
	var links []int
	for f, err := range client.Entries(dir) {
		if err != nil || len(entries) == mostEntries {
			break
		}
		if !wanted(f.BaseName()) {
			continue
		}
		if !f.IsDir() && !f.IsRegular() && len(links) < mostLinks {
			links = append(links, len(entries))
		}
		entries = append(entries, Entry{f.BaseName(), f.IsDir()})
	}
	for r := range usftp.Batch(slices.Values(links), 0, func(i int) *usftp.Pending[fs.FileInfo] {
		return client.Async().Stat(path.Join(dir, entries[i].Name))
	}) {
		entries[r.Item].Dir = r.Err == nil && r.Value.IsDir()
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}
