package transfer

import (
	"fmt"
	"path"
	"strings"
)

// filter decides which entries are copied.
type filter struct{ include, exclude []pattern }

type pattern struct {
	elements []string
	whole    bool // matched with the path, not only its last element
	dirs     bool // matches only directories
}

func newFilter(include, exclude []string) (f filter, err error) {
	if f.include, err = newPatterns(include); err == nil {
		f.exclude, err = newPatterns(exclude)
	}
	return f, err
}

func newPatterns(texts []string) (all []pattern, err error) {
	for _, text := range texts {
		var p pattern
		trimmed := strings.TrimRight(text, "/")
		p.dirs = trimmed != text
		p.whole = strings.Contains(trimmed, "/")
		p.elements = strings.Split(strings.TrimLeft(trimmed, "/"), "/")
		for _, element := range p.elements {
			switch _, err := path.Match(element, ""); {
			case err != nil || element == "":
				return nil, fmt.Errorf("%q is not a valid pattern", text)
			case element == "." || element == "..": // else everything would be copied
				return nil, fmt.Errorf("%q matches nothing: paths in the tree have no %q", text,
					element)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// wants reports whether an entry is copied. Directories are entered even if only Include is set,
// since wanted files may lie in them.
func (f *filter) wants(rel string, dir bool) bool {
	if matchAny(f.exclude, rel, dir) {
		return false
	}
	return dir || len(f.include) == 0 || matchAny(f.include, rel, dir)
}

// wantsAll reports whether a file, and every directory above it, is wanted.
func (f *filter) wantsAll(name string) bool {
	for at := range len(name) {
		if name[at] == '/' && !f.wants(name[:at], true) {
			return false
		}
	}
	return f.wants(name, false)
}

func matchAny(patterns []pattern, rel string, dir bool) bool {
	for _, p := range patterns {
		if p.dirs && !dir {
			continue
		}
		name := strings.Split(rel, "/")
		if !p.whole {
			name = name[len(name)-1:]
		}
		if matchElements(p.elements, name) {
			return true
		}
	}
	return false
}

// matchElements backtracks to the last "**" only: what is before it has matched as little as
// possible, and no other match would leave more for the rest. So matching takes at most the product
// of both lengths, even with many "**" in a deep tree.
func matchElements(pattern, name []string) bool {
	p, n := 0, 0
	star, from := -1, 0 // the last "**", and where in name its match ends
	for n < len(name) {
		if p < len(pattern) && pattern[p] == "**" {
			star, from = p, n
			p++
			continue
		}
		if p < len(pattern) {
			if ok, _ := path.Match(pattern[p], name[n]); ok {
				p++
				n++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, n = star+1, from
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}
