package sshpattern

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "a/b", true},
		{"a*c", "abbc", true},
		{"a*c", "abcd", false},
		{"*.example.org", "www.example.org", true},
		{"*.example.org", "example.org", false},
		{"?", "", false},
		{"?", "a", true},
		{"10.0.?.*", "10.0.1.20", true},
		{"10.0.?.*", "10.0.12.20", false},
		{"[host]:22", "[host]:22", true},
		{"[host]:22", "h:22", false},
		{"Host", "host", false},
		{"a**b", "ab", true},
		{"*a*b*", "xxaxxbxx", true},
		{"*", "abc", true},
		{"a*c", "ab", false},
		{"[a-z]", "h", false},
		{"**a**", "ba", true},
		{"*.*.2.?", "192.0.2.7", true},
		{"192.0.2.?", "192.0.2.77", false},
		{"a", "", false},
	} {
		if got := Match(test.pattern, test.text); got != test.want {
			t.Errorf("Match(%q, %q) = %v", test.pattern, test.text, got)
		}
	}
}

// TestMatchIsNotExponential: this pattern would keep a naive matcher busy forever.
func TestMatchIsNotExponential(t *testing.T) {
	if Match(strings.Repeat("*a", 1000)+"b", strings.Repeat("a", 10_000)) {
		t.Error("matched")
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 30 || len(text) > 30 || strings.Count(pattern, "*") > 6 {
			return
		}
		if got, want := Match(pattern, text), slowMatch(pattern, text); got != want {
			t.Fatalf("Match(%q, %q) = %v", pattern, text, got)
		}
	})
}

// slowMatch follows the definition.
func slowMatch(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return slowMatch(pattern[1:], text) || text != "" && slowMatch(pattern, text[1:])
	}
	return text != "" && (pattern[0] == '?' || pattern[0] == text[0]) &&
		slowMatch(pattern[1:], text[1:])
}

func TestMatchList(t *testing.T) {
	for list, want := range map[string]bool{
		"a,b":   true,
		"b":     false,
		"*,!a":  false,
		"!a,*":  false,
		"!b,*":  true,
		"!b":    false,
		"!b,a*": true,
	} {
		got := MatchList(strings.Split(list, ","), func(item string) (matches, negated bool) {
			item, negated = strings.CutPrefix(item, "!")
			return Match(item, "a"), negated
		})
		if got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}
