package scp

import "testing"

func TestPathPattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"*": "*", "[!a]*": "[^a]*", "[^a]": "[^a]", "x[!0-9]y[!z]": "x[^0-9]y[^z]", "[a!]": "[a!]",
		`\[!a]`: `\[!a]`, `\\[!a]`: `\\[^a]`, "[a[!b]": "[a[!b]", "[": "[", "[!": "[^", `a\`: `a\`,
	} {
		if got := PathPattern(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}
