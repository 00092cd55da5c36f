package plan

import (
	"path"
	"path/filepath"
)

// A Reach is the set of the source's directories in which something may have changed, quick to
// query however many changes there are. A nil Reach covers everything.
type Reach struct {
	listed map[string]bool // directories that are compared, and all above them
	trees  map[string]bool // directories in which everything is compared
}

// NewReach returns the Reach of dirs, and of trees with everything in them.
func NewReach(dirs map[string]bool, trees []string) *Reach {
	r := &Reach{make(map[string]bool), make(map[string]bool)}
	add := func(rel string) {
		for ; !r.listed[rel]; rel = path.Dir(rel) {
			r.listed[rel] = true
		}
	}
	for dir := range dirs {
		add(path.Clean(dir))
	}
	for _, tree := range trees {
		tree = path.Clean(tree)
		r.trees[tree] = true
		add(tree)
	}
	return r
}

// Has reports whether a directory is compared, or contains one that is.
func (r *Reach) Has(rel string) bool {
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

// IsBelow reports whether a relative path leads below its starting directory, and not to that
// directory itself.
func IsBelow(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) != "."
}

// A Rename was made in the source, and is repeated in the target. Paths are relative to both.
type Rename struct{ From, To string }

// RenamesAtOnce is how many renames are made at once: each takes a few round trips.
const RenamesAtOnce = 64

// Unrelated returns how many of the first renames may be made in any order: none of their paths
// equals another, or lies in it.
func Unrelated(renames []Rename) int {
	met := make(map[string]bool)   // paths
	above := make(map[string]bool) // all directories above them
	for i, r := range renames[:min(len(renames), RenamesAtOnce)] {
		for _, name := range []string{r.From, r.To} {
			name = path.Clean(name)
			if above[name] {
				return i
			}
			for at := name; at != "." && at != "/"; at = path.Dir(at) {
				if met[at] {
					return i
				}
			}
		}
		for _, name := range []string{r.From, r.To} {
			name = path.Clean(name)
			met[name] = true
			for name != "." && name != "/" {
				name = path.Dir(name)
				above[name] = true
			}
		}
	}
	return min(len(renames), RenamesAtOnce)
}
