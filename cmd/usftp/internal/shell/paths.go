package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/pattern"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// remoteNames returns the absolute paths on the host that a word stands for: the matches of its
// pattern, or the path that it names, whether or not it exists.
func (s *shell) remoteNames(ctx context.Context, host pool.Host, w word) ([]string, error) {
	return s.expand(w, func(typed, literal string) ([]string, error) {
		return pattern.Expand(ctx, host.Client, typed, literal)
	})
}

// readableNames works like remoteNames for files to be read; see [pattern.ExpandReadable].
func (s *shell) readableNames(ctx context.Context, host pool.Host, w word) ([]string, error) {
	return s.expand(w, func(typed, literal string) ([]string, error) {
		return pattern.ExpandReadable(ctx, host.Client, typed, literal, func(name, why string) {
			s.app.Console.Say(name + ": skipped: " + why)
		})
	})
}

// readable returns readableNames bound to a command's host.
func (s *shell) readable(ctx context.Context, r *request) func(w word) ([]string, error) {
	return func(w word) ([]string, error) { return s.readableNames(ctx, r.host, w) }
}

func (s *shell) expand(w word, match func(typed, literal string) ([]string, error)) ([]string,
	error) {
	if !w.isPattern() {
		return []string{s.session.abs(s.tilde(w))}, nil
	}
	typed := w.pattern
	switch below, home := strings.CutPrefix(typed, "~/"); {
	case home && s.quoting == shQuoting:
		typed = strings.TrimSuffix(usftp.QuotePattern(s.session.home), "/") + "/" + below
	case !path.IsAbs(typed):
		typed = strings.TrimSuffix(usftp.QuotePattern(s.session.dir), "/") + "/" + typed
	}
	names, err := match(typed, s.session.abs(w.text))
	if errors.Is(err, pattern.ErrNoMatch) {
		err = fmt.Errorf("%s: %w", w.text, err)
	}
	return names, err
}

// expandAll returns the names that words stand for. It reports each error, and returns the first.
func (s *shell) expandAll(words []word, expand func(w word) ([]string, error)) (names []string,
	failed error) {
	for _, w := range words {
		found, err := expand(w)
		failed = cmp.Or(failed, s.report(err))
		names = append(names, found...)
	}
	return names, failed
}

// tilde returns the name that a word stands for, with a leading ~ replaced by the login directory.
// sftp does not support that, so neither do its batch files.
func (s *shell) tilde(w word) string {
	name := w.name()
	if s.quoting == shQuoting && (w.pattern == "~" || strings.HasPrefix(w.pattern, "~/")) {
		return s.session.home + strings.TrimPrefix(name, "~")
	}
	return name
}

// localNames returns the local names that a word stands for.
func (s *shell) localNames(w word) ([]string, error) {
	if !w.isPattern() {
		return []string{s.localTilde(w)}, nil
	}
	typed := w.pattern
	if below, found := strings.CutPrefix(typed, "~/"); found {
		if home, err := os.UserHomeDir(); err == nil {
			typed = usftp.QuotePattern(filepath.ToSlash(home)) + "/" + below
		}
	}
	names, err := localfs.Glob(typed)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		if _, err := os.Lstat(w.text); err == nil {
			return []string{w.text}, nil
		}
		return nil, fmt.Errorf("%s: no match", w.text)
	}
	return names, nil
}

// isDirectory reports whether a remote name leads to a directory, or may do so on a host that does
// not tell.
func isDirectory(ctx context.Context, host pool.Host, name string) (bool, error) {
	info, err := private.OfClient(host.Client.WithContext(ctx)).Find(name)
	if untold := private.Untold(err); untold || errors.Is(err, fs.ErrNotExist) {
		return untold, nil
	}
	return err == nil && info.IsDir(), err
}
