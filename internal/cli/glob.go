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

// expand returns the files that a source stands for: those that match its pattern, or the one file
// it names. Only what the person typed decides what is a pattern and what the copy is called; a home
// directory that the server told is neither, whatever it looks like.
func (c *copier) expand(s place) ([]file, error) {
	if !s.remote {
		return []file{{place: s, path: s.path()}}, nil
	}
	typed := s.target.Path
	user, below, ok := c.home(&s)
	switch {
	case ok && strings.Trim(below, "/") == "":
		// The contents of the directory, under the name that was typed: the last element of the
		// path is the server's word.
		return []file{{place: s, path: s.path() + "/.", name: user}}, nil
	case !hasGlob(typed) && strings.Contains(typed, `\`):
		from := 0
		if ok {
			from = len(s.target.Path) - len(below)
		}
		s.target.Path = c.unescaped(s, from)
		return []file{{place: s, path: s.path()}}, nil
	case !hasGlob(typed):
		return []file{{place: s, path: s.path()}}, nil
	}
	host, told := c.hosts.get(c.ctx, s.target)
	if host.err != nil {
		if told {
			return nil, nil
		}
		return nil, host.err
	}
	pattern := s.target.Path
	if ok {
		pattern = usftp.QuotePattern(strings.TrimSuffix(pattern, below)) + below
	}
	names, err := glob(c.ctx, host.Client, pattern, s.target.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot copy %s:%s: %w", host.Name, s.target.Path, err)
	}
	if len(names) != 1 || names[0] != s.target.Path {
		names = c.withoutSpecial(c.ctx, host.Host, names)
	}
	var files []file
	for _, name := range names {
		files = append(files, file{place: s, path: name})
	}
	return files, nil
}

// unescaped returns the path of a place whose name was typed with backslashes, as for the shell that
// scp once ran on the host: 'host:sp\ ace'. Where a file has just the name that was typed, it is
// meant. The first bytes, up to from, are not what was typed.
func (c *copier) unescaped(s place, from int) string {
	host, _ := c.hosts.get(c.ctx, s.target)
	if host.err != nil {
		return s.target.Path // which tells of it again
	}
	client := host.Client.WithContext(c.ctx)
	if _, err := client.Lstat(s.path()); !errors.Is(err, fs.ErrNotExist) {
		return s.target.Path
	}
	typed := s.target.Path[from:]
	var name strings.Builder
	for i := 0; i < len(typed); i++ {
		if typed[i] == '\\' && i+1 < len(typed) {
			i++
		}
		name.WriteByte(typed[i])
	}
	plain := s.target.Path[:from] + name.String()
	if _, err := client.Lstat(plain); err != nil {
		return s.target.Path
	}
	return plain
}

// atHome returns a place with a leading ~user replaced by that user's home directory, as in scp.
func (c *copier) atHome(p place) place {
	c.home(&p)
	return p
}

// home replaces a leading ~user of a remote path by that user's home directory, and returns the user
// and what was typed below, with its slash. If the server does not know, the path stays as it is and
// ok is false.
func (c *copier) home(p *place) (user, below string, ok bool) {
	if !p.remote || !strings.HasPrefix(p.target.Path, "~") {
		return "", "", false
	}
	host, told := c.hosts.get(c.ctx, p.target)
	if host.err != nil {
		if !told {
			c.fail(host.err)
		}
		return "", "", false
	}
	user = p.target.Path
	if i := strings.IndexByte(user, '/'); i >= 0 {
		user, below = user[:i], user[i:]
	}
	if user == "~." || user == "~.." {
		return "", "", false // not a name for the copy
	}
	home, err := host.Client.WithContext(c.ctx).ExpandPath(user)
	if err != nil {
		return "", "", false
	}
	p.target.Path = home + below
	return user[1:], below, true
}

// glob asks a host for the names that match a pattern, or else for the file with just this name.
func glob(ctx context.Context, client *usftp.Client, pattern, literal string) ([]string, error) {
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
		if _, statErr := client.Lstat(literal); statErr == nil {
			return []string{literal}, nil
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
	if err != nil || !matches || base == "" || base == "." || base == ".." ||
		strings.ContainsAny(base, "/\x00") {
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
