package transfer

import "testing"

func TestThroughParent(t *testing.T) {
	for name, want := range map[string]string{
		"": "", ".": "", "..": "", "../..": "", "/..": "", "../a": "", "a/b": "", "a/./b/": "",
		"a..": "", "a/..b": "", "a/...": "", "./../b": "",
		"a/..": "a/..", "a/../": "a/..", "a/../.": "a/..", "/a/../b": "/a/..", "../a/../b": "../a/..",
		"a/../b/../c/d": "a/../b/..", "a//..//b": "a//..", "./a/../..": "./a/../..",
	} {
		if got := name[:throughParent(name)]; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
