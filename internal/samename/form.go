package samename

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The forms are for copies, which ask the target whether it takes two names for one, and for which
// of these differences: case, letters, or bytes.

// Form returns a form shared by all names that some file system takes for one: names that
// differ only in case, in how Unicode spells a letter, or in bytes that are no UTF-8.
func Form(name string) string {
	if IsASCII(name) {
		return strings.ToLower(name)
	}
	name = Decoded(name)
	return norm.NFC.String(Fold(norm.NFC.String(name)))
}

// Decoded returns a form shared by all names that a host may take for one because it decodes UTF-8,
// as those in Java and JavaScript do: what is none becomes U+FFFD, and how many is up to them.
func Decoded(name string) string {
	const broken = string(utf8.RuneError)
	name = strings.ToValidUTF8(name, broken)
	for strings.Contains(name, broken+broken) {
		name = strings.ReplaceAll(name, broken+broken, broken)
	}
	return name
}

// Fold returns the same string for names that differ only in case. Bytes that are not UTF-8
// stay unchanged: strings.ToLower would make one name of all.
func Fold(name string) string {
	if utf8.ValidString(name) {
		return foldText(name)
	}
	var folded strings.Builder
	for len(name) > 0 {
		c, n := utf8.DecodeRuneInString(name)
		if c == utf8.RuneError && n == 1 {
			folded.WriteByte(name[0])
		} else {
			folded.WriteString(foldText(name[:n]))
		}
		name = name[n:]
	}
	return folded.String()
}

func foldText(text string) string {
	return strings.ToLower(strings.ToUpper(text)) // both: a long s is an s only in upper case
}
