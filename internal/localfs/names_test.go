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
	if double("read me") {
		t.Error("another name is taken for one that is there")
	}
}

// TestNamesThatWindowsAlters: none of them may be written under the name that Windows makes of it.
func TestNamesThatWindowsAlters(t *testing.T) {
	for _, name := range []string{"a.", "a ", "a. .", "c:", "file:stream", `a\b`, `..\a`, "a?",
		"a*", "<a", "a>", "a|b", `"a"`, "a\nb", "\x01"} {
		if !altersOnWindows(name) {
			t.Errorf("%q", name)
		}
	}
	for _, name := range []string{"a", ".a", " a", "a.b", "ü", "a\x7f", "a;b", "con2", "..a"} {
		if altersOnWindows(name) {
			t.Errorf("%q can be one", name)
		}
	}
}

// TestCheckName: what is no name anywhere is none here; what only Windows reserves is a name
// elsewhere, and is told apart there.
func TestCheckName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/"} {
		if err := CheckName(name); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"CON", "nul.txt", "a.", "a:b"} {
		if err := CheckName(name); (runtime.GOOS == "windows") != errors.Is(err, errReservedName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
