package cp

import (
	"fmt"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/cli/connect"
	"github.com/usftp/usftp/internal/cli/pattern"
	"github.com/usftp/usftp/transfer"
)

// expand returns the files that a source stands for: those that match its pattern, or the one file
// it names. Only what the user typed decides what is a pattern and what the copy is called; a home
// directory reported by the server never does, whatever it looks like.
func (c *Copier) expand(s connect.Place) ([]file, error) {
	switch {
	case s.Stream:
		return []file{{Place: s, path: s.Path(), name: c.name}}, nil
	case !s.Remote:
		return []file{{Place: s, path: s.Path()}}, nil
	}
	typed := s.Target.Path
	user, below, ok := c.Home(&s)
	switch {
	case ok && strings.Trim(below, "/") == "":
		// The contents of the directory, under the name that was typed: the last element of the
		// path came from the server.
		return []file{{Place: s, path: s.Path() + "/.", name: user}}, nil
	case !pattern.Has(typed) && strings.Contains(typed, `\`):
		from := 0
		if ok {
			from = len(s.Target.Path) - len(below)
		}
		s.Target.Path = c.unescaped(s, from)
		return []file{{Place: s, path: s.Path()}}, nil
	case !pattern.Has(typed):
		return []file{{Place: s, path: s.Path()}}, nil
	}
	host, err := c.Host(s)
	if err != nil {
		return nil, nil // it has been reported
	}
	typedPattern := s.Target.Path
	if ok {
		typedPattern = usftp.QuotePattern(strings.TrimSuffix(typedPattern, below)) + below
	}
	names, err := pattern.ExpandReadable(c.Ctx, host.Client, typedPattern, s.Target.Path,
		func(name, why string) {
			if c.options.Events != nil {
				c.options.Events(transfer.Event{Kind: transfer.Skipped, Time: time.Now(),
					Message: why,
					Route:   transfer.Route{SourceHost: host.Name, Source: name}})
			}
		})
	if err != nil {
		return nil, fmt.Errorf("cannot copy %s:%s: %w", host.Name, s.Target.Path, err)
	}
	var files []file
	for _, name := range names {
		files = append(files, file{Place: s, path: name})
	}
	return files, nil
}

// unescaped returns the path of a place that was typed with backslashes; see [pattern.Unescape].
func (c *Copier) unescaped(s connect.Place, from int) string {
	host, err := c.Host(s)
	if err != nil {
		return s.Target.Path // the copy will fail
	}
	return pattern.Unescape(host.Client.WithContext(c.Ctx), s.Target.Path, from)
}
