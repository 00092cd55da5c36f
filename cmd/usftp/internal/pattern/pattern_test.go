package pattern

import "testing"

// A server may answer a listing with any name; only names that match the pattern become names of
// local files.
func TestCheckMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		good          bool
	}{
		{"*.txt", "a.txt", true},
		{"dir/../*.txt", "a.txt", true},
		{"/srv//*/x?", "/srv/b/xy", true},
		{`a\*b`, "a*b", true},
		{"*", "..", false},
		{"*", ".", false},
		{"*", "dir/..", false},
		{"*.txt", "evil.sh", false},
		{"*.txt", "a.txt/../../.bashrc", false},
		{"*", "a\x00b", false},
		{"*", "caf\xe9", true},
		{"caf?", "caf\xe9", true},
		{"*", "/", false},
		{"*", "", false},
		{"[", "x", false},
	} {
		if err := checkMatch(c.pattern, c.name); (err == nil) != c.good {
			t.Errorf("checkMatch(%q, %q) = %v", c.pattern, c.name, err)
		}
	}
}
