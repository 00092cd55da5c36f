package usftp

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Glob returns the names that match a pattern, sorted, as [path/filepath.Glob] does: the syntax is
// that of [path.Match], errors of opening a directory are ignored (but those of the connection and
// of the context, which are returned), and the only others are [path.ErrBadPattern], those of a
// listing that breaks off, and that more names match than is reasonable (256 MiB of them). A
// pattern without metacharacters costs one round trip; each directory in which names are matched
// costs a listing, many of which go on at once.
func (c *Client) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	names, err := c.glob(pattern)
	slices.Sort(names)
	return names, err
}

func (c *Client) glob(pattern string) ([]string, error) {
	if !hasMeta(pattern) {
		if _, err := c.Lstat(pattern); err != nil {
			return nil, c.fatal(err)
		}
		return []string{pattern}, nil
	}
	dir, last := path.Split(pattern)
	dirs := []string{globDir(dir)}
	if hasMeta(dirs[0]) {
		var err error
		if dirs, err = c.glob(dirs[0]); err != nil {
			return nil, err
		}
	}
	found := make([][]string, len(dirs))
	errs := make([]error, len(dirs))
	var wg sync.WaitGroup
	turn := make(chan struct{}, mostGlobbed)
	var taken atomic.Int64
	for i, dir := range dirs {
		turn <- struct{}{}
		wg.Go(func() {
			found[i], errs[i] = c.matches(dir, last, &taken)
			<-turn
		})
	}
	wg.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// mostGlobbed is how many directories are listed at once.
const mostGlobbed = 32

// mostGlobBytes is how much memory names that match may take.
const mostGlobBytes = 256 << 20

// matches returns the names in a directory that match a pattern, and counts what they take. A
// directory that cannot be opened holds none; of one whose listing breaks off nobody knows what it
// holds.
func (c *Client) matches(dir, pattern string, taken *atomic.Int64) (names []string, err error) {
	entries := 0
	for f, err := range c.Entries(dir) {
		if err != nil && entries == 0 {
			return names, c.fatal(err)
		}
		if err != nil {
			return names, err
		}
		entries++
		if ok, _ := path.Match(pattern, f.BaseName()); ok {
			names = append(names, path.Join(dir, f.BaseName()))
			taken.Add(int64(len(names[len(names)-1])))
		}
		if entries > mostEntries || taken.Load() > mostGlobBytes {
			return names, &fs.PathError{Op: "glob", Path: dir, Err: errTooMuch}
		}
	}
	return names, nil
}

// fatal returns an error that is not the file's but the connection's or the context's.
func (c *Client) fatal(err error) error {
	if c.ctx.Err() != nil || c.conn.Err() != nil {
		return err
	}
	return nil
}

// globDir is the directory in which a pattern's last element is matched.
func globDir(dir string) string {
	switch dir {
	case "":
		return "."
	case "/":
		return dir
	}
	return strings.TrimRight(dir, "/")
}

// QuotePattern returns a pattern for [Client.Glob] that matches just name: its metacharacters are
// escaped. Quote names that come from elsewhere, such as the server, before they become part of a
// pattern.
func QuotePattern(name string) string {
	return metacharacters.Replace(name)
}

var metacharacters = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }
