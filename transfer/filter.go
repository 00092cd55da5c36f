package transfer

import (
	"bufio"
	"io"
	"strings"
)

// A FilterRule includes or excludes what a pattern matches. In a list of rules the first match
// decides. What none matches is included. Excluded directories are not entered.
//
// Patterns are rsync's. A pattern with a leading slash is matched with the whole path relative to
// the source, one with another slash with the end of the path, any other with the last element. "*"
// and "?" match no slash, "**" does, [...] is a class. A pattern that ends in a slash matches only
// directories; "dir/***" matches the directory and everything in it.
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

// ReadFilter adds the rules in a file, one per line. Empty lines and lines that begin with "#" or
// ";" are ignored.
func ReadFilter(rules []FilterRule, r io.Reader, include bool) ([]FilterRule, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if line != "" && line[0] != '#' && line[0] != ';' {
			rules = AppendFilter(rules, line, include)
		}
	}
	return rules, lines.Err()
}
