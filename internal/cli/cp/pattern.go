package cp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cli/connect"
)

// expand returns the files that a source stands for: those that match its pattern, or the one file
// it names. Only what the person typed decides what is a pattern and what the copy is called; a home
// directory that the server told is neither, whatever it looks like.
func (c *Copier) expand(s connect.Place) ([]file, error) {
	if !s.Remote {
		return []file{{Place: s, path: s.Path()}}, nil
	}
	typed := s.Target.Path
	user, below, ok := c.Home(&s)
	switch {
	case ok && strings.Trim(below, "/") == "":
		// The contents of the directory, under the name that was typed: the last element of the
		// path is the server's word.
		return []file{{Place: s, path: s.Path() + "/.", name: user}}, nil
	case !hasGlob(typed) && strings.Contains(typed, `\`):
		from := 0
		if ok {
			from = len(s.Target.Path) - len(below)
		}
		s.Target.Path = c.unescaped(s, from)
		return []file{{Place: s, path: s.Path()}}, nil
	case !hasGlob(typed):
		return []file{{Place: s, path: s.Path()}}, nil
	}
	host, told := c.Hosts.Get(c.Ctx, s.Target)
	if host.Err != nil {
		if told {
			return nil, nil
		}
		return nil, host.Err
	}
	pattern := s.Target.Path
	if ok {
		pattern = usftp.QuotePattern(strings.TrimSuffix(pattern, below)) + below
	}
	names, err := glob(c.Ctx, host.Client, pattern, s.Target.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot copy %s:%s: %w", host.Name, s.Target.Path, err)
	}
	if len(names) != 1 || names[0] != s.Target.Path {
		names = c.withoutSpecial(c.Ctx, host.Host, names)
	}
	var files []file
	for _, name := range names {
		files = append(files, file{Place: s, path: name})
	}
	return files, nil
}

// unescaped returns the path of a place whose name was typed with backslashes, as for the shell that
// scp once ran on the host: 'host:sp\ ace'. Where a file has just the name that was typed, it is
// meant. The first bytes, up to from, are not what was typed.
func (c *Copier) unescaped(s connect.Place, from int) string {
	host, _ := c.Hosts.Get(c.Ctx, s.Target)
	if host.Err != nil {
		return s.Target.Path // which tells of it again
	}
	client := host.Client.WithContext(c.Ctx)
	if _, err := client.Lstat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
		return s.Target.Path
	}
	typed := s.Target.Path[from:]
	var name strings.Builder
	for i := 0; i < len(typed); i++ {
		if typed[i] == '\\' && i+1 < len(typed) {
			i++
		}
		name.WriteByte(typed[i])
	}
	plain := s.Target.Path[:from] + name.String()
	if _, err := client.Lstat(plain); err != nil {
		return s.Target.Path
	}
	return plain
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
		return nil, errors.New("no match on the host")
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
		return fmt.Errorf("the server answered with the name %q, which was not asked for", name)
	}
	return nil
}

// hidden reports whether a name begins with a dot where the pattern does not, in one of its elements:
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
