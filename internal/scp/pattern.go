package scp

import "strings"

// PathPattern returns a shell's pattern for [path.Match], where a set that begins with "[!" begins
// with "[^".
func PathPattern(pattern string) string {
	b, inSet := []byte(pattern), false
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\':
			i++
		case b[i] == '[' && !inSet:
			if inSet = true; i+1 < len(b) && b[i+1] == '!' {
				b[i+1] = '^'
			}
		case b[i] == ']':
			inSet = false
		}
	}
	return string(b)
}

// Unquote removes the backslashes that quote characters of a pattern.
func Unquote(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
