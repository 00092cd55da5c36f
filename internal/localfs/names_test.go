package localfs

import (
	"errors"
	"runtime"
	"testing"
)

// TestNamesThatAreOne: names that differ in case only are found, whatever script and directory they
// are of.
func TestNamesThatAreOne(t *testing.T) {
	names := make(map[string]bool)
	double := func(name string) bool {
		folded := FoldName(name)
		defer func() { names[folded] = true }()
		return names[folded]
	}
	for _, name := range []string{"readme", "Makefile", "straße", "\u0130", "σ", "a\xff"} {
		if double(name) {
			t.Errorf("%q is the first of its name", name)
		}
	}
	for _, name := range []string{"README", "makefile", "MAKEFILE", "STRAßE", "Σ", "ς", "A\xff",
		"readme"} {
		if !double(name) {
			t.Errorf("%q is not found to be there", name)
		}
	}
	for _, name := range []string{"read me", "a\xfe", "a\ufffd"} {
		if double(name) {
			t.Errorf("%q is taken for one that is there", name)
		}
	}
}

// TestCheckName: what is no name anywhere is none here; what only Windows reserves is a name
// elsewhere, and is told apart there.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00"} {
		if err := CheckName(name); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, want := range map[string]error{"CON": errDevice, "nul.txt": errDevice, "a.": errEnd,
		"a:b": errCharacter} {
		if runtime.GOOS != "windows" {
			want = nil
		}
		if err := CheckName(name); !errors.Is(err, want) ||
			errors.Is(err, ErrBadName) != (want != nil) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
