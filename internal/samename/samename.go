// Package samename says which file names a disk may take for the same one. Disks differ: Windows
// and macOS ignore case, macOS also how Unicode composes a letter, and Linux's ext4 and F2FS, in a
// directory marked for it (casefold), both of these and invisible characters. The rules of Key are
// the least that all of them tell apart.
package samename

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Key returns a text that is equal for names that a disk may take for the same one. It has a slash,
// or a character with a meaning in patterns, only where the name has.
func Key(name string) string {
	if IsASCII(name) {
		return strings.ToLower(name)
	}
	var b strings.Builder
	for _, r := range norm.NFD.String(name) {
		switch {
		case unseen(r):
		case r == 'ß', r == 'ẞ':
			b.WriteString("ss")
		case longer(r):
			for _, part := range norm.NFKD.String(string(r)) {
				b.WriteRune(folded(part))
			}
		default:
			b.WriteRune(folded(r))
		}
	}
	return norm.NFC.String(b.String()) // where most letters are one character, for patterns
}

// Keys returns the keys of the elements of a path.
func Keys(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	keys := strings.Split(path, "/")
	for i := range keys {
		keys[i] = Key(keys[i])
	}
	return keys
}

// Within reports whether a path is another one, or below it.
func Within(path, other string) bool {
	keys, with := Keys(path), Keys(other)
	return len(keys) >= len(with) && slices.Equal(keys[:len(with)], with)
}

// IsASCII reports whether a name has only ASCII characters.
func IsASCII(name string) bool {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// unseen reports whether a rune is ignored where it is not known (Default_Ignorable_Code_Point of
// Unicode, which ext4 ignores).
func unseen(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector)
}

// longer reports whether a rune is several in the other case, although it does not decompose:
// Unicode's CaseFolding.txt, status F.
func longer(r rune) bool {
	return r == 0x149 || r == 0x587 || r == 0x1E9A || r >= 0xFB00 && r <= 0xFB17
}

// folded returns the same rune for all runes that differ in case only.
func folded(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}
