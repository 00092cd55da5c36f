package filter

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Ignore is the rules of an ignore file, with those of the directories above. The last
// matching rule of the nearest file decides: gitignore(5).
type Ignore struct {
	above *Ignore
	dir   string // the file's directory, relative to the source; "." for the source itself
	rules Rules
}

// LongestIgnore is the size of the largest ignore file that is read.
const LongestIgnore = 1 << 20

// NewIgnore parses an ignore file.
func NewIgnore(above *Ignore, dir string, text []byte) (*Ignore, error) {
	g := &Ignore{above: above, dir: dir}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	for line := range bytes.Lines(text) {
		text := strings.TrimSuffix(string(line), "\n")
		text = strings.TrimSuffix(text, "\r")
		if strings.HasPrefix(text, "#") {
			continue
		}
		for strings.HasSuffix(text, " ") && !escapedEnd(text) {
			text = text[:len(text)-1]
		}
		var r Rule
		text, r.include = strings.CutPrefix(text, "!")
		if strings.HasSuffix(text, "/") {
			text, r.dirs = text[:len(text)-1], true
		}
		if text == "" {
			continue
		}
		if !strings.Contains(text, "/") {
			r.elements = 1
		}
		expression := gitExpression(strings.TrimPrefix(text, "/"))
		var err error
		if r.match, err = regexp.Compile(`(?s)\A(?:` + expression + `)\z`); err != nil {
			return nil, fmt.Errorf("the pattern %q is too long or too complicated", text)
		}
		g.rules = append(g.rules, r)
	}
	return g, nil
}

// escapedEnd reports whether the space at the end of a line is escaped.
func escapedEnd(line string) bool {
	slashes := 0
	for i := len(line) - 2; i >= 0 && line[i] == '\\'; i-- {
		slashes++
	}
	return slashes%2 == 1
}

// gitExpression translates a pattern as git's wildmatch.c reads it into a regular expression: "**"
// matches slashes only between slashes or at either end.
func gitExpression(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '*' {
			n, expression := element(text[i:])
			b.WriteString(expression)
			i += n
			continue
		}
		stars := len(text[i:]) - len(strings.TrimLeft(text[i:], "*"))
		begins, ends := i == 0 || text[i-1] == '/', i+stars == len(text)
		whole := stars >= 2 && begins && (ends || text[i+stars] == '/')
		i += stars
		switch {
		case whole && ends:
			b.WriteString(".*")
		case whole:
			b.WriteString("(?:.*/)?")
			i++
		default:
			b.WriteString("[^/]*")
		}
	}
	return b.String()
}

// Exclude reports whether the rules exclude an entry. Those of a nil Ignore exclude nothing.
func (g *Ignore) Exclude(rel string, dir bool) bool {
	for ; g != nil; g = g.above {
		below := rel
		if g.dir != "." {
			below = strings.TrimPrefix(rel, g.dir+"/")
		}
		for i := len(g.rules) - 1; i >= 0; i-- {
			if g.rules[i].matches(below, dir) {
				return !g.rules[i].include
			}
		}
	}
	return false
}
