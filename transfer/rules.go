package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
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

// A rule is a compiled pattern.
type rule struct {
	include  bool
	dirs     bool // matches only directories
	elements int  // how many last elements of a path are matched; 0 means the whole path
	below    bool // a directory is matched with a slash added, as "dir/***" requires
	match    *regexp.Regexp
}

var errEmptyPattern = errors.New("a filter pattern is empty")

// newRules compiles rsync's patterns as rsync's exclude.c does.
func newRules(filter []FilterRule) (rules []rule, err error) {
	for _, f := range filter {
		text := f.Pattern
		if text == "" || text == "/" {
			return nil, errEmptyPattern
		}
		r := rule{include: f.Include}
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
			return nil, fmt.Errorf("the filter pattern %q is too long or too complicated",
				f.Pattern)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// matches reports whether a rule matches a path relative to the rule's directory.
func (r *rule) matches(rel string, dir bool) bool {
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

// excluded reports whether rules exclude a path.
func excluded(rules []rule, rel string, dir bool) bool {
	for i := range rules {
		if rules[i].matches(rel, dir) {
			return !rules[i].include
		}
	}
	return false
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

// ignoreRules are the rules of an ignore file, with those of the directories above. The last
// matching rule of the nearest file decides: gitignore(5).
type ignoreRules struct {
	above *ignoreRules
	dir   string // the file's directory, relative to the source; "." for the source itself
	rules []rule
}

// longestIgnore is the largest ignore file that is read.
const longestIgnore = 1 << 20

// newIgnoreRules parses an ignore file.
func newIgnoreRules(above *ignoreRules, dir string, text []byte) (*ignoreRules, error) {
	g := &ignoreRules{above: above, dir: dir}
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
		var r rule
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

// excludes reports whether the rules exclude an entry.
func (g *ignoreRules) excludes(rel string, dir bool) bool {
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

// A syncFilter decides what a sync leaves out on both sides.
type syncFilter struct {
	tree       *tree
	rules      []rule
	ignoreFile string // SyncOptions.IgnoreFile
	backupDir  string // relative to the target, or ""

	// allIncluded says that there are no rules but those of ignore files.
	allIncluded bool
}

func newSyncFilter(t *tree, rules []rule, o *SyncOptions) syncFilter {
	return syncFilter{tree: t, rules: rules, ignoreFile: o.IgnoreFile, backupDir: o.BackupDir,
		allIncluded: len(rules)+len(o.Include)+len(o.Exclude) == 0 && o.BackupDir == ""}
}

// excludes reports whether an entry is left out.
func (f *syncFilter) excludes(in *directory, name string, dir bool) bool {
	if in.rel == "." && name == lockName {
		return true
	}
	if f.allIncluded && in.ignore == nil {
		return false // and no path is made for each of a million names
	}
	rel := path.Join(in.rel, name)
	return excluded(f.rules, rel, dir) || in.ignore.excludes(rel, dir) ||
		f.backupDir != "" && rel == f.backupDir || !f.tree.filter.wants(rel, dir)
}

// excludesPath is excludes for a path that may lie in an excluded directory.
func (f *syncFilter) excludesPath(rel string, dir bool) bool {
	src := f.tree.src
	in := &directory{tree: f.tree, rel: ".", source: f.tree.root.source}
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if f.ignoreFile != "" && (src.lstat(in.source) != nil || f.readIgnore(in) != nil) {
			return true // its rules are gone
		}
		if f.excludes(in, name, dir || rest != "") {
			return true
		}
		in = &directory{tree: f.tree, parent: in, rel: path.Join(in.rel, name),
			source: src.join(in.source, name)}
	}
	return false
}

// readIgnore reads a directory's ignore file, and adds its rules to those of the directory above.
func (f *syncFilter) readIgnore(d *directory) error {
	if d.parent != nil {
		d.ignore = d.parent.ignore
	}
	if f.ignoreFile == "" || d.extra {
		return nil
	}
	name := f.tree.src.join(d.source, f.ignoreFile)
	text, err := f.tree.src.readSmall(name, longestIgnore)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && len(text) == longestIgnore:
		err = &fs.PathError{Op: "read", Path: name,
			Err: errors.New("it is too large for an ignore file")}
	}
	if err == nil {
		d.ignore, err = newIgnoreRules(d.ignore, d.rel, text)
	}
	return ofSource(err)
}
