package cp

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/pattern"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/transfer"
)

// expandHere replaces the patterns among local sources on Windows, whose shells leave that to
// programs. There, no name has * or ?, and [ is a character like any other.
func expandHere(args []string) (expanded []string, err error) {
	if runtime.GOOS != "windows" {
		return args, nil
	}
	for i, arg := range args {
		_, remote, _ := dial.ParseTarget(arg)
		if remote || i == len(args)-1 || !strings.ContainsAny(arg, "*?") ||
			strings.HasPrefix(arg, ":") || strings.HasPrefix(arg, `\\?`) {
			expanded = append(expanded, arg)
			continue
		}
		names, err := localfs.Glob(strings.ReplaceAll(filepath.ToSlash(arg), "[", `\[`))
		if err == nil && len(names) == 0 {
			err = errors.New("no match")
		}
		if err != nil {
			return nil, fmt.Errorf("cannot copy %s: %w", arg, err)
		}
		for _, name := range names {
			if name == "-" { // which would be standard input
				name = `.\-`
			}
			expanded = append(expanded, name)
		}
	}
	return expanded, nil
}

// expand returns the files that a source stands for: the matches of its pattern, or the one file it
// names. Only text typed by the user can be a pattern or name the copy; a home directory reported
// by the server never does, whatever it looks like.
func (c *Copier) expand(s connect.Place) ([]file, error) {
	switch {
	case s.Stream:
		return []file{{Place: s, path: s.Path(), name: c.name}}, nil
	case !s.Remote:
		return []file{{Place: s, path: s.Path()}}, nil
	}
	user, home := c.Home(&s)
	path := s.Path()
	typed := path[home:]
	switch {
	case home > 0 && strings.Trim(typed, "/") == "":
		// The contents of the directory, under the typed name: the last element of the path came from the
		// server.
		return []file{{Place: s, path: path + "/.", name: user}}, nil
	case !pattern.Has(typed) && !strings.Contains(typed, `\`):
		return []file{{Place: s, path: path}}, nil
	}
	host, err := c.Host(s)
	if err != nil {
		return nil, nil // it has been reported
	}
	if !pattern.Has(typed) {
		path = pattern.Unescape(host.Client.WithContext(c.Ctx), path, home)
		return []file{{Place: s, path: path}}, nil
	}
	names, err := pattern.ExpandReadable(c.Ctx, host.Client,
		usftp.QuotePattern(path[:home])+typed, path, func(name, why string) {
			c.options.Events(transfer.Event{Kind: transfer.Skipped, Time: time.Now(), Message: why,
				Route: transfer.Route{SourceHost: host.Name, Source: name}})
		})
	if err != nil {
		return nil, fmt.Errorf("cannot copy %s:%s: %w", host.Name, path, err)
	}
	var files []file
	for _, name := range names {
		files = append(files, file{Place: s, path: name})
	}
	return files, nil
}
