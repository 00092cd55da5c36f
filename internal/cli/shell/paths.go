package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
)

// errNoMatch reports a pattern that matches nothing.
var errNoMatch = errors.New("no match")

// remoteNames are the absolute paths that a word stands for on the host: those that match its
// pattern, or the one that it names, whether that exists or not.
func (s *Shell) remoteNames(ctx context.Context, host pool.Host, w word) ([]string, error) {
	if !w.isPattern() {
		return []string{s.session.abs(s.tilde(w))}, nil
	}
	pattern := w.pattern
	if !path.IsAbs(pattern) {
		pattern = strings.TrimSuffix(usftp.QuotePattern(s.session.dir), "/") + "/" + pattern
	}
	names, err := host.Client.WithContext(ctx).Glob(pattern)
	if err != nil && !errors.Is(err, path.ErrBadPattern) {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return hidden(pattern, name) })
	if len(names) == 0 {
		// the file may have this very name
		if name := s.session.abs(w.text); s.exists(ctx, host, name) {
			return []string{name}, nil
		}
		return nil, fmt.Errorf("%s: %w", w.text, errNoMatch)
	}
	return names, nil
}

func (s *Shell) exists(ctx context.Context, host pool.Host, name string) bool {
	_, err := host.Client.WithContext(ctx).Lstat(name)
	return err == nil
}

// tilde is the name that a word stands for, with a leading ~ as the directory of the login. sftp has
// no such thing, and neither have its batch files.
func (s *Shell) tilde(w word) string {
	name := w.name()
	if s.quoting == shQuoting && (w.pattern == "~" || strings.HasPrefix(w.pattern, "~/")) {
		return s.session.home + strings.TrimPrefix(name, "~")
	}
	return name
}

// localNames are the local names that a word stands for.
func (s *Shell) localNames(w word) ([]string, error) {
	if !w.isPattern() {
		return []string{s.localTilde(w)}, nil
	}
	names, err := filepath.Glob(w.pattern)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return hidden(w.pattern, filepath.ToSlash(name))
	})
	if len(names) == 0 {
		if _, err := lstat(w.text); err == nil {
			return []string{w.text}, nil
		}
		return nil, fmt.Errorf("%s: %w", w.text, errNoMatch)
	}
	return names, nil
}

// hidden reports whether a name begins with a dot where the pattern does not, in one of its elements.
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

// isDirectory reports whether a remote name leads to a directory.
func isDirectory(ctx context.Context, host pool.Host, name string) (bool, error) {
	info, err := host.Client.WithContext(ctx).Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}
