package localfs

import "testing"

func TestHidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "a", false},
		{"*", ".ssh", true},
		{".*", ".ssh", false},
		{`\.*`, ".ssh", false},
		{"*/x", ".d/x", true},
		{".d/*", ".d/x", false},
		{"../*", "../x", false},
		{"../*", "../.x", true},
	} {
		if got := Hidden(c.pattern, c.name); got != c.want {
			t.Errorf("Hidden(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}
