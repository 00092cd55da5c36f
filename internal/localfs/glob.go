package localfs

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Glob returns the files that match a pattern, sorted. Its elements are separated by slashes, and a
// backslash quotes the next character, also on Windows. As in a shell, names that begin with a dot
// must be matched explicitly.
func Glob(pattern string) ([]string, error) {
	typed := pattern
	if runtime.GOOS == "windows" {
		drive := filepath.VolumeName(pattern)
		elements := strings.Split(pattern[len(drive):], "/")
		for i, e := range elements {
			elements[i] = windowsPattern(e)
		}
		pattern, typed = drive+strings.Join(elements, "/"), pattern[len(drive):]
	}
	names, err := filepath.Glob(pattern)
	return slices.DeleteFunc(names, func(name string) bool {
		return Hidden(typed, filepath.ToSlash(name[len(filepath.VolumeName(name)):]))
	}), err
}

// Hidden reports whether one of a name's elements begins with a dot where the pattern does not: as
// in a shell and in scp, such names are not meant.
func Hidden(pattern, name string) bool {
	p, n := strings.Split(pattern, "/"), strings.Split(name, "/")
	for i := 1; i <= min(len(p), len(n)); i++ {
		want, got := p[len(p)-i], n[len(n)-i]
		if strings.HasPrefix(got, ".") && !strings.HasPrefix(strings.TrimPrefix(want, `\`), ".") &&
			got != want {
			return true
		}
	}
	return false
}

// windowsPattern converts one element of a pattern to the form that package filepath takes on
// Windows, where a backslash does not quote, and letters of either case are meant.
func windowsPattern(element string) string {
	if element == "*.*" { // all files have been meant by this since they all had extensions
		return "*"
	}
	var b, plain strings.Builder
	pattern := false
	for i := 0; i < len(element); {
		c, n := utf8.DecodeRuneInString(element[i:])
		i += n
		switch {
		case c == '*' || c == '?':
			pattern = true
			b.WriteRune(c)
			continue
		case c == '[':
			class, _, _ := strings.Cut(element[i:], "]")
			i = min(i+len(class)+1, len(element))
			pattern = true
			chars, negated := strings.CutPrefix(strings.ReplaceAll(class, `\`, ""), "^")
			b.WriteByte('[')
			if negated {
				b.WriteByte('^')
			}
			b.WriteString(chars + strings.ToLower(chars) + strings.ToUpper(chars) + "]")
			continue
		case c == '\\' && i < len(element):
			c, n = utf8.DecodeRuneInString(element[i:])
			i += n
		}
		plain.WriteRune(c)
		if lower, upper := unicode.ToLower(c), unicode.ToUpper(c); lower != upper || c == '[' {
			b.WriteString("[" + string(lower) + string(upper) + "]")
			pattern = pattern || c == '[' // package filepath would take the name for one
		} else {
			b.WriteRune(c)
		}
	}
	if !pattern {
		return plain.String()
	}
	return b.String()
}
