package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp"
)

// expand gives the files that a source stands for: those that a remote pattern matches; where it
// matches none, the file that has just this name.
func (c *copier) expand(s place) ([]file, error) {
	if !s.remote || !hasGlob(s.target.Path) {
		return []file{{s, s.path()}}, nil
	}
	host, told := c.hosts.get(c.ctx, s.target)
	if host.err != nil {
		if told {
			return nil, nil
		}
		return nil, host.err
	}
	names, err := glob(c.ctx, host.Client, s.target.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot copy %s:%s: %w", host.Name, s.target.Path, err)
	}
	var files []file
	for _, name := range names {
		files = append(files, file{s, name})
	}
	return files, nil
}

// atHome gives a path that begins with ~user its place, as scp does. Where the server cannot tell,
// or knows no such user, it is a name like any other.
func (c *copier) atHome(p place) place {
	if !p.remote || !strings.HasPrefix(p.target.Path, "~") {
		return p
	}
	host, told := c.hosts.get(c.ctx, p.target)
	if host.err != nil {
		if !told {
			c.fail(host.err)
		}
		return p
	}
	user, rest, below := strings.Cut(p.target.Path, "/")
	home, err := host.Client.WithContext(c.ctx).ExpandPath(user)
	if err != nil {
		return p
	}
	if p.target.Path = home; below {
		p.target.Path += "/" + rest
	}
	return p
}

// glob asks a host for the names that match.
func glob(ctx context.Context, client *usftp.Client, pattern string) ([]string, error) {
	client = client.WithContext(ctx)
	names, err := client.Glob(pattern)
	names = slices.DeleteFunc(names, func(name string) bool { return hidden(pattern, name) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// part of the files are not what was asked for
	if err != nil && !errors.Is(err, path.ErrBadPattern) {
		return nil, err
	}
	// the file may have this name, and its directory may be one that cannot be listed
	if len(names) == 0 {
		if _, statErr := client.Lstat(pattern); statErr == nil {
			return []string{pattern}, nil
		}
		return nil, errors.New("no file on the host has such a name")
	}
	for _, name := range names {
		if err := checkMatch(pattern, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// checkMatch makes sure that a name's last element, by which the copy will be called, is one that
// was asked for. A server that answers a listing of "*.txt" with names of its own choosing could
// otherwise have files written over that nobody meant, and in other directories.
func checkMatch(pattern, name string) error {
	base := path.Base(name)
	matches, err := path.Match(path.Base(pattern), base)
	if err != nil || !matches || base == "." || base == ".." || strings.IndexByte(base, 0) >= 0 ||
		!fs.ValidPath(base) {
		return fmt.Errorf("the server has answered with the name %q, which is not what was asked for", name)
	}
	return nil
}

// hidden tells whether a name begins with a dot where the pattern does not, in one of its elements:
// as in a shell and in scp, such names are not meant.
func hidden(pattern, name string) bool {
	p, n := strings.Split(pattern, "/"), strings.Split(name, "/")
	for i := 1; i <= min(len(p), len(n)); i++ {
		want, got := p[len(p)-i], n[len(n)-i]
		if strings.HasPrefix(got, ".") && !strings.HasPrefix(strings.TrimPrefix(want, `\`), ".") &&
			got != want {
			return true
		}
	}
	return false
}
