package usftp

import (
	"path"
	"slices"
	"strings"
)

// Glob returns the names that match a pattern, sorted, as [path/filepath.Glob] does: the syntax is that of [path.Match], errors of
// reading are ignored (but those of the connection and of the context, which are returned), and the only other error is
// [path.ErrBadPattern]. A pattern without metacharacters costs one round trip; each directory in which names are
// matched costs a listing.
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
	var names []string
	for _, dir := range dirs {
		for f, err := range c.Entries(dir) {
			if err != nil {
				if err = c.fatal(err); err != nil {
					return names, err
				}
				break // a directory that cannot be read holds no matches
			}
			if ok, _ := path.Match(last, f.BaseName()); ok {
				names = append(names, path.Join(dir, f.BaseName()))
			}
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
