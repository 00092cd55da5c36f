package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/usftp/usftp/internal/endpoint"
)

// A FilterRule includes or excludes the paths that match a pattern. In a list of rules the first
// match decides. A path without a match is included. Excluded directories are not entered.
//
// Patterns are rsync's. A pattern with a leading slash is matched against the whole path relative
// to the source, one with another slash against the end of the path, any other against the last
// element. "*" and "?" match no slash, "**" does, [...] is a class. A pattern that ends in a slash
// matches only directories; "dir/***" matches the directory and everything in it.
type FilterRule struct {
	Pattern string
	Include bool
}

// AppendFilter adds a rule in the form of rsync's --include, --exclude and their files: a prefix "+
// " or "- " overrides include, and "!" clears all rules so far.
func AppendFilter(rules []FilterRule, text string, include bool) []FilterRule {
	if text == "!" {
		return nil
	}
	if pattern, ok := strings.CutPrefix(text, "+ "); ok {
		text, include = pattern, true
	} else if pattern, ok := strings.CutPrefix(text, "- "); ok {
		text, include = pattern, false
	}
	return append(rules, FilterRule{text, include})
}

// withoutMark returns what follows the byte order mark that some Windows programs begin a text in
// UTF-8 with. As part of the first rule it would make that one ineffective.
func withoutMark(r io.Reader) io.Reader {
	const mark = "\ufeff"
	text := bufio.NewReader(r)
	if begins, _ := text.Peek(len(mark)); string(begins) == mark {
		text.Discard(len(mark))
	}
	return text
}

// ReadFilter adds the rules in a file, one per line. Empty lines and lines that begin with "#" or
// ";" are ignored. A file with a NUL, as UTF-16 has, holds no rules: the error is [fs.ErrInvalid].
func ReadFilter(rules []FilterRule, r io.Reader, include bool) ([]FilterRule, error) {
	lines := bufio.NewScanner(withoutMark(r))
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if strings.IndexByte(line, 0) >= 0 { // UTF-16
			return nil, errNoRules
		}
		if line != "" && line[0] != '#' && line[0] != ';' {
			rules = AppendFilter(rules, line, include)
		}
	}
	return rules, lines.Err()
}

// A FileList names the files of a tree to copy, as rsync's --files-from does. The directories above
// them are made; a named directory is made, too, but its entries are not copied unless its name
// ends in a slash or the list is Recursive.
type FileList struct {
	// Names are relative to the source, with slashes. A leading slash is ignored, and ".." leads no
	// further up than the source.
	Names []string

	// Recursive copies everything in the named directories.
	Recursive bool
}

// longestListed is longer than any path on any system.
const longestListed = 64 << 10

// errNoRules, errNoLines and errNoNames report that a list is not of the expected kind. No path has
// a NUL, or is so long.
var (
	errNoRules = endpoint.Explain("not a list of rules: it contains NUL, as UTF-16 does",
		fs.ErrInvalid)
	errNoLines = endpoint.Explain("not a list of paths that end in a newline", fs.ErrInvalid)
	errNoNames = endpoint.Explain("not a list of paths that end in a NUL", fs.ErrInvalid)
)

// ReadFileList reads the names in a list, one per line, or each up to a NUL. As in rsync, empty
// names and those that begin with "#" or ";" are skipped, and a carriage return ends a line, too.
// If the input cannot be such a list, the error is [fs.ErrInvalid].
func ReadFileList(r io.Reader, nul bool) (*FileList, error) {
	ends, invalid := "\n\r", errNoLines
	if nul {
		ends, invalid = "\x00", errNoNames
	}
	list := new(FileList)
	names := bufio.NewScanner(withoutMark(r))
	names.Buffer(nil, longestListed)
	names.Split(func(data []byte, atEOF bool) (advance int, token []byte, err error) {
		if i := bytes.IndexAny(data, ends); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for names.Scan() {
		switch name := names.Text(); {
		case strings.IndexByte(name, 0) >= 0:
			return nil, invalid
		case name != "" && name[0] != '#' && name[0] != ';':
			list.Names = append(list.Names, name)
		}
	}
	if errors.Is(names.Err(), bufio.ErrTooLong) {
		return nil, invalid
	}
	return list, names.Err()
}

var (
	errNotFound = endpoint.Explain("the list names it, but the source does not have it",
		fs.ErrNotExist)
	errNotReached = errors.New("the list names it, but the way to it is a symbolic link, or it has come since; transfer.LinksFollow follows links")
)

// tellMissing reports each name of the list that the walk has not found.
func (t *tree) tellMissing() {
	var looks errgroup.Group
	looks.SetLimit(deleteFiles)
	t.selection.List.Missing(func(rel string, excused bool) {
		if t.ctx.Err() != nil {
			return
		}
		looks.Go(func() error {
			source := t.src.Join(t.route.Source, rel)
			switch _, err := t.src.Lstat(source); {
			case err == nil && excused:
			case err == nil:
				err = errNotReached
				fallthrough
			default:
				if endpoint.IsAbsent(err) {
					err = errNotFound // not as the source's: a sync would count it as vanished
				}
				t.fail("", source, t.dst.Join(t.root.target, rel),
					&fs.PathError{Op: "list", Path: source, Err: err})
			}
			return nil
		})
	})
	looks.Wait()
}
