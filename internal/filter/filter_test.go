package filter

import "testing"

func TestRules(t *testing.T) {
	for _, test := range []struct {
		pattern, path string
		dir, excluded bool
	}{
		{"*.o", "deep/a.o", false, true},
		{"*.o", "a.o/deep", false, false},
		{"/a", "a", false, true},
		{"/a", "b/a", false, false},
		{"b/a", "c/b/a", false, true},
		{"b/a", "cb/a", false, false},
		{"cache/", "cache", true, true},
		{"cache/", "cache", false, false},
		{"a*b", "a/b", false, false},
		{"a**b", "a/x/b", false, true},
		{"[!a-c]", "d", false, true},
		{"[!a-c]", "b", false, false},
		{"[", "[", false, false}, // an unclosed class matches nothing
		{`\*`, "*", false, true},
		{"\xff?", "\xff\xfe", false, true}, // bytes, not characters
		{"dir/***", "dir", true, true},
		{"dir/***", "dir/a/b", false, true},
	} {
		rule, err := NewRule(test.pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Rules{rule}).Exclude(test.path, test.dir); got != test.excluded {
			t.Errorf("%q excludes %q: %v", test.pattern, test.path, got)
		}
	}
	for _, bad := range []string{"", "/"} {
		if _, err := NewRule(bad, false); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// The first rule that matches decides, and a file in an excluded directory is excluded.
func TestOrderOfRules(t *testing.T) {
	keep, _ := NewRule("keep.o", true)
	objects, _ := NewRule("*.o", false)
	cache, _ := NewRule("cache/", false)
	rules := Rules{keep, objects, cache}
	for path, want := range map[string]bool{"keep.o": false, "x.o": true, "cache/keep.o": true,
		"x/keep.o": false} {
		if got := rules.ExcludeFile(path); got != want {
			t.Errorf("%q is excluded: %v", path, got)
		}
	}
}

// The nearest ignore file decides, and in it the last rule.
func TestIgnore(t *testing.T) {
	top, err := NewIgnore(nil, ".", []byte("# comment\n*.log\n!keep.log\n/build/\n"))
	if err != nil {
		t.Fatal(err)
	}
	below, err := NewIgnore(top, "sub", []byte("\ufeff!x.log\r\nlocal \n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		rel      string
		dir      bool
		excluded bool
	}{
		{"sub/x.log", false, false}, {"sub/y.log", false, true}, {"sub/keep.log", false, false},
		{"sub/local", false, true}, {"build", true, true}, {"build", false, false},
		{"sub/build", true, false},
	} {
		if got := below.Exclude(test.rel, test.dir); got != test.excluded {
			t.Errorf("%q: %v", test.rel, got)
		}
	}
	if (*Ignore)(nil).Exclude("x", false) {
		t.Error("no ignore file excludes something")
	}
}
