package transfer

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filter"
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

// A syncFilter decides what a sync leaves out on both sides.
type syncFilter struct {
	tree       *tree
	ignoreFile string // SyncOptions.IgnoreFile
	backupDir  string // relative to the target, or ""

	// allIncluded says that there are no rules but those of ignore files.
	allIncluded bool
}

func newSyncFilter(t *tree, o *SyncOptions) syncFilter {
	return syncFilter{tree: t, ignoreFile: o.IgnoreFile, backupDir: o.BackupDir,
		allIncluded: len(o.Filter) == 0 && o.BackupDir == ""}
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
	return f.tree.filter.Exclude(rel, dir) || in.ignore.Exclude(rel, dir) ||
		f.backupDir != "" && rel == f.backupDir
}

// excludesPath is excludes for a path that may lie in an excluded directory.
func (f *syncFilter) excludesPath(rel string, dir bool) bool {
	src := f.tree.src
	in := &directory{tree: f.tree, rel: ".", source: f.tree.root.source}
	for rest := rel; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if f.ignoreFile != "" {
			if _, err := src.Lstat(in.source); err != nil || f.readIgnore(in) != nil {
				return true // its rules are gone
			}
		}
		if f.excludes(in, name, dir || rest != "") {
			return true
		}
		in = &directory{tree: f.tree, parent: in, rel: path.Join(in.rel, name),
			source: src.Join(in.source, name)}
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
	name := f.tree.src.Join(d.source, f.ignoreFile)
	text, _, err := f.tree.src.ReadSmall(name, filter.LongestIgnore) // as git: through no link
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, endpoint.ErrNotRegular):
		return nil
	case err == nil && len(text) == filter.LongestIgnore:
		err = &fs.PathError{Op: "read", Path: name,
			Err: errors.New("too large for an ignore file")}
	}
	if err == nil {
		d.ignore, err = filter.NewIgnore(d.ignore, d.rel, text)
	}
	return endpoint.OfSource(err)
}

// A reach is a SyncWithin in a form that is quick to ask, however many changes there are.
type reach struct {
	listed map[string]bool // directories that are compared, and all above them
	trees  map[string]bool // directories in which everything is compared
}

func newReach(w *SyncWithin) *reach {
	if w == nil {
		return nil
	}
	r := &reach{make(map[string]bool), make(map[string]bool)}
	add := func(rel string) {
		for ; !r.listed[rel]; rel = path.Dir(rel) {
			r.listed[rel] = true
		}
	}
	for dir := range w.Dirs {
		add(path.Clean(dir))
	}
	for _, tree := range w.Trees {
		tree = path.Clean(tree)
		r.trees[tree] = true
		add(tree)
	}
	return r
}

// has reports whether a directory is compared, or contains one that is.
func (r *reach) has(rel string) bool {
	if r == nil || r.listed[rel] || r.trees["."] {
		return true
	}
	for ; rel != "."; rel = path.Dir(rel) {
		if r.trees[rel] {
			return true
		}
	}
	return false
}
