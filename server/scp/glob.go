package scp

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	protocol "github.com/usftp/usftp/internal/scp"
)

// maxMatches limits the paths that a pattern may match.
const maxMatches = 100_000

// expand returns the paths that an argument stands for. As in a shell, a pattern without a match
// stands for itself.
func (s *session) expand(w Word) ([]string, error) {
	if !w.Glob {
		name, err := s.resolve(w, w.Literal(), asItIs)
		return []string{name}, err
	}
	pattern, err := s.resolve(w, w.Pattern, quoted.Replace)
	if err != nil {
		return nil, err
	}
	found, matched := []string{"/"}, false
	for element := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		if isPattern(element) {
			matched = true
			found, err = s.expandElement(found, element)
		} else {
			found = s.enter(found, Word{Pattern: element}.Literal(), matched)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		name, err := s.resolve(w, w.Literal(), asItIs)
		return []string{name}, err
	}
	return found, nil
}

// quoted escapes what is special in a pattern.
var quoted = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// isPattern reports whether an element has special characters that are not escaped.
func isPattern(element string) bool {
	for i := 0; i < len(element); i++ {
		switch element[i] {
		case '\\':
			i++
		case '*', '?', '[':
			return true
		}
	}
	return false
}

// enter appends an element to each of the directories. As in a shell, a directory that a pattern
// has matched is left out if it does not have the element.
func (s *session) enter(dirs []string, element string, matched bool) (found []string) {
	for _, dir := range dirs {
		name := join(dir, element)
		if matched {
			if _, err := s.view.Lstat(s.ctx, name); err != nil && !errors.Is(err, fs.ErrPermission) {
				continue
			}
		}
		found = append(found, name)
	}
	return found
}

// expandElement expands one element of a pattern in each of the directories.
func (s *session) expandElement(dirs []string, element string) (found []string, err error) {
	element = protocol.PathPattern(element)
	for _, dir := range dirs {
		var names []string
		for entry, err := range s.view.List(s.ctx, dir) {
			if err != nil {
				break // no directory, or not for this user: no matches
			}
			ok, err := path.Match(element, entry.Name())
			if err != nil {
				return nil, fs.ErrInvalid
			}
			// As in a shell, patterns match hidden files only if they begin with a dot.
			if ok && (!strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(element, ".")) {
				names = append(names, join(dir, entry.Name()))
			}
			if len(found)+len(names) > maxMatches {
				return nil, fs.ErrInvalid
			}
		}
		slices.Sort(names)
		found = append(found, names...)
	}
	return found, nil
}
