package plan

import "path"

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
