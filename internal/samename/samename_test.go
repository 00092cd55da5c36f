package samename

import (
	"slices"
	"testing"
	"unicode"
)

// TestKey: names that some disk takes for one have one key, and others have not.
func TestKey(t *testing.T) {
	for _, same := range [][]string{
		{"Geheim", "geheim", "GEHEIM", "ge\u200bheim", "ge\u00adheim", "\ufeffgeheim"},
		{"caf\u00e9", "cafe\u0301", "CAFE\u0301", "CAF\u00c9"},
		{"kelvin", "\u212aelvin"},
		{"stra\u00dfe", "strasse", "STRA\u1e9eE", "\u017ftrasse"},
		{"office", "o\ufb03ce", "OFFICE"},
		{"\u03c3", "\u03c2", "\u03a3"},
		{"\u1ed9", "o\u0323\u0302", "o\u0302\u0323", "\u1ed8", "\u00f4\u0323"},
		{"\uac00", "\u1100\u1161"},
	} {
		for _, name := range same {
			if Key(name) != Key(same[0]) {
				t.Errorf("%q is told from %q", name, same[0])
			}
		}
	}
	seen := map[string]string{}
	for _, name := range []string{"", "a", "b", "ab", "e", "\u00e9", "a b", "a.", "secret",
		"secret\uff0fx", "\u0131", "i", "\u4e00", "not\xffUTF-8"} {
		if other, taken := seen[Key(name)]; taken {
			t.Errorf("%q is taken for %q", name, other)
		}
		seen[Key(name)] = name
	}
	if got := Keys("/In/CAFE\u0301/"); !slices.Equal(got, []string{"in", "caf\u00e9"}) {
		t.Errorf("the keys of a path: %q", got)
	}
}

// TestKeyOfRunes: each letter has the key of its other cases, a key has no other, and none gets a
// slash or a character of patterns.
func TestKeyOfRunes(t *testing.T) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		key := Key(string(r))
		for _, other := range []rune{unicode.ToLower(r), unicode.ToUpper(r), unicode.ToTitle(r)} {
			if Key(string(other)) != key && r != 0x130 && r != 0x131 { // as in Turkish only
				t.Errorf("%U is told from %U", r, other)
			}
		}
		if Key(key) != key {
			t.Errorf("%U: the key %q has the key %q", r, key, Key(key))
		}
		for _, meant := range "/*?[]\\!" {
			if r != meant && slices.Contains([]rune(key), meant) {
				t.Errorf("%U becomes %q", r, key)
			}
		}
	}
}

// TestNamesThatAreOne: names that differ in case only are found, whatever script and directory they
// are of.
func TestNamesThatAreOne(t *testing.T) {
	names := make(map[string]bool)
	double := func(name string) bool {
		folded := Fold(name)
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
