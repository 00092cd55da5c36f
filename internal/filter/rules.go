// Package filter decides which names of a tree are left out, by rsync's patterns and git's ignore
// files.
package filter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A Rule is a compiled pattern.
type Rule struct {
	include  bool
	dirs     bool // matches only directories
	elements int  // how many last elements of a path are matched; 0 means the whole path
	below    bool // a directory is matched with a slash added, as "dir/***" requires
	match    *regexp.Regexp
}

var errEmptyPattern = errors.New("a filter pattern is empty")

// NewRule compiles one of rsync's patterns as rsync's exclude.c does.
func NewRule(pattern string, include bool) (r Rule, err error) {
	text := pattern
	if text == "" || text == "/" {
		return r, errEmptyPattern
	}
	r.include = include
	wild := strings.ContainsAny(text, "*[?")
	if strings.HasSuffix(text, "/") {
		text, r.dirs = text[:len(text)-1], true
	}
	deep := strings.Contains(text, "**")
	slashes := strings.Count(text, "/")
	r.below = deep && strings.HasSuffix(text, "***")
	before := ""
	switch {
	case strings.HasPrefix(text, "/"):
		text = text[1:]
	case deep && strings.HasPrefix(text, "**"):
		if rest := strings.TrimLeft(text, "*"); strings.HasPrefix(rest, "/") {
			text, before = rest[1:], "(?:.*/)?" // "**/" may match nothing
		}
	case deep:
		before = "(?:.*/)?"
	default:
		r.elements = slashes + 1
	}
	expression := regexp.QuoteMeta(latin1(text))
	if wild {
		expression = rsyncExpression(text)
	}
	if r.match, err = regexp.Compile(`(?s)\A` + before + `(?:` + expression +
		`)\z`); err != nil {
		return r, fmt.Errorf("the filter pattern %q is too long or too complicated", pattern)
	}
	return r, nil
}

// ErrMatchesNothing is why a pattern is of no use.
var ErrMatchesNothing = errors.New("matches nothing: a [ has no ], or a \\ has nothing after it")

// NewRefusal is NewRule where a pattern that matches nothing is a mistake, as one of names that are
// to be refused is.
func NewRefusal(pattern string) (Rule, error) {
	r, err := NewRule(pattern, false)
	if err == nil && strings.Contains(r.match.String(), matchesNothing) {
		err = ErrMatchesNothing
	}
	return r, err
}

// matches reports whether a rule matches a path relative to the rule's directory.
func (r *Rule) matches(rel string, dir bool) bool {
	if r.dirs && !dir {
		return false
	}
	if r.elements > 0 {
		at := len(rel)
		for n := r.elements; n > 0; n-- {
			if at < 0 {
				return false
			}
			at = strings.LastIndexByte(rel[:at], '/')
		}
		rel = rel[at+1:]
	}
	if rel = latin1(rel); r.below && dir {
		rel += "/"
	}
	return r.match.MatchString(rel)
}

// Rules are in their order: the first that matches decides.
type Rules []Rule

// Exclude reports whether the rules exclude a path.
func (rules Rules) Exclude(rel string, dir bool) bool {
	for i := range rules {
		if rules[i].matches(rel, dir) {
			return !rules[i].include
		}
	}
	return false
}

// ExcludeFile reports whether the rules exclude a file or any directory above it.
func (rules Rules) ExcludeFile(rel string) bool {
	for at := range len(rel) {
		if rel[at] == '/' && rules.Exclude(rel[:at], true) {
			return true
		}
	}
	return rules.Exclude(rel, false)
}

// latin1 turns each byte into a character: patterns match bytes, and names need not be UTF-8.
func latin1(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			characters := make([]rune, len(s))
			for i := range len(s) {
				characters[i] = rune(s[i])
			}
			return string(characters)
		}
	}
	return s
}

// matchesNothing is a regular expression.
const matchesNothing = `[^\x00-\x{10FFFF}]`

// rsyncExpression translates a pattern as rsync's wildmatch.c reads it into a regular expression.
func rsyncExpression(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '*':
			stars := len(text[i:]) - len(strings.TrimLeft(text[i:], "*"))
			if i += stars; stars > 1 {
				b.WriteString(".*")
			} else {
				b.WriteString("[^/]*")
			}
		default:
			n, expression := element(text[i:])
			b.WriteString(expression)
			i += n
		}
	}
	return b.String()
}

// element translates the first element of a pattern, other than a star, and returns its length.
func element(text string) (n int, expression string) {
	switch text[0] {
	case '?':
		return 1, "[^/]"
	case '[':
		return class(text)
	case '\\':
		if len(text) == 1 {
			return 1, matchesNothing
		}
		return 2, regexp.QuoteMeta(latin1(text[1:2]))
	}
	return 1, regexp.QuoteMeta(latin1(text[:1]))
}

// class translates the character class that a pattern begins with. No class matches a slash. An
// unclosed class matches nothing, nor does the rest of the pattern.
func class(text string) (n int, expression string) {
	i := 1
	negated := i < len(text) && (text[i] == '!' || text[i] == '^')
	if negated {
		i++
	}
	var set [256]bool
	last := -1 // the previous character, which may start a range
	for first := true; ; first = false {
		if i >= len(text) {
			return len(text), matchesNothing
		}
		c := text[i]
		switch {
		case c == ']' && !first:
			return i + 1, setExpression(&set, negated)
		case c == '-' && last >= 0 && i+1 < len(text) && text[i+1] != ']':
			i++
			if text[i] == '\\' {
				if i++; i >= len(text) {
					return len(text), matchesNothing
				}
			}
			for c := last; c <= int(text[i]); c++ {
				set[c] = true
			}
			last = -1
			i++
			continue
		case c == '[' && i+1 < len(text) && text[i+1] == ':':
			end := strings.IndexByte(text[i+2:], ']')
			if end < 0 {
				return len(text), matchesNothing
			}
			if name, ok := strings.CutSuffix(text[i+2:i+2+end], ":"); ok {
				in, ok := posixClass(name)
				if !ok {
					return len(text), matchesNothing
				}
				for c := range 128 {
					set[c] = set[c] || in.MatchString(string(rune(c)))
				}
				last = -1
				i += 2 + end + 1
				continue
			}
		case c == '\\':
			if i++; i >= len(text) {
				return len(text), matchesNothing
			}
			c = text[i]
		}
		set[c] = true
		last = int(c)
		i++
	}
}

func setExpression(set *[256]bool, negated bool) string {
	var b strings.Builder
	for c, in := range set {
		if in != negated && c != '/' {
			fmt.Fprintf(&b, `\x{%x}`, c)
		}
	}
	if b.Len() == 0 {
		return matchesNothing
	}
	return "[" + b.String() + "]"
}

// posixClass returns the expression for a POSIX class such as "alpha". Go knows more than POSIX
// does: negated ones, ascii and word.
func posixClass(name string) (class *regexp.Regexp, ok bool) {
	if strings.HasPrefix(name, "^") || name == "ascii" || name == "word" {
		return nil, false
	}
	class, err := regexp.Compile("[[:" + name + ":]]")
	return class, err == nil
}
