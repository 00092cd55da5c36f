package usftp

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
)

// Glob returns the names that match a pattern, sorted, as [path/filepath.Glob] does: the syntax is that of [path.Match], errors of
// reading are ignored (but those of the connection and of the context, which are returned), and the only other error is
// [path.ErrBadPattern]. A pattern without metacharacters costs one round trip; each directory in which names are
// matched costs a listing, many of which go on at once.
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
	for i, dir := range dirs {
		turn <- struct{}{}
		wg.Go(func() {
			found[i], errs[i] = c.matches(dir, last)
			<-turn
		})
	}
	wg.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// mostGlobbed is how many directories are listed at once.
const mostGlobbed = 32

// matches returns the names in a directory that match a pattern. A directory that cannot be read holds none.
func (c *Client) matches(dir, pattern string) (names []string, err error) {
	for f, err := range c.Entries(dir) {
		if err != nil {
			return names, c.fatal(err)
		}
		if ok, _ := path.Match(pattern, f.BaseName()); ok {
			names = append(names, path.Join(dir, f.BaseName()))
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

func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }
