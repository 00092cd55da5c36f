package verb

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wildcard reports whether a name matches a pattern like fnmatch(3) without flags: "*" and "?"
// match slashes and leading dots too. The time is proportional to the product of both lengths.
func wildcard(pattern, name string, fold bool) bool {
	if fold {
		pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	}
	// After a mismatch the last star takes one more character.
	var star, resume = -1, 0
	p, n := 0, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, resume = p, n
			p++
			continue
		}
		r, size := utf8.DecodeRuneInString(name[n:])
		if matched, next := matchOne(pattern, p, r, name[n:n+size]); matched {
			p, n = next, n+size
			continue
		}
		if star < 0 {
			return false
		}
		_, size = utf8.DecodeRuneInString(name[resume:])
		resume += size
		p, n = star+1, resume
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne matches one character with the pattern's element at p, and returns where the next
// element begins.
func matchOne(pattern string, p int, r rune, text string) (matched bool, next int) {
	if p == len(pattern) {
		return false, p
	}
	switch c := pattern[p]; c {
	case '?':
		return true, p + 1
	case '[':
		if matched, next, ok := matchSet(pattern, p+1, r); ok {
			return matched, next
		}
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return strings.HasPrefix(pattern[p:], text), p + len(text)
}

// matchSet matches one character with a set such as [a-z] or [!0-9]. ok is false if the bracket is
// never closed and so stands for itself.
func matchSet(pattern string, p int, r rune) (matched bool, next int, ok bool) {
	negated := p < len(pattern) && (pattern[p] == '!' || pattern[p] == '^')
	if negated {
		p++
	}
	for first := true; p < len(pattern); first = false {
		if pattern[p] == ']' && !first {
			return matched != negated, p + 1, true
		}
		if class, after, ok := strings.Cut(pattern[p:], ":]"); ok && strings.HasPrefix(class,
			"[:") {
			matched = matched || inClass(class[2:], r)
			p = len(pattern) - len(after)
			continue
		}
		low, size := setRune(pattern[p:])
		p += size
		high := low
		if strings.HasPrefix(pattern[p:], "-") && p+1 < len(pattern) && pattern[p+1] != ']' {
			high, size = setRune(pattern[p+1:])
			p += 1 + size
		}
		matched = matched || low <= r && r <= high
	}
	return false, 0, false
}

func setRune(text string) (rune, int) {
	if len(text) > 1 && text[0] == '\\' {
		r, size := utf8.DecodeRuneInString(text[1:])
		return r, 1 + size
	}
	return utf8.DecodeRuneInString(text)
}

func inClass(name string, r rune) bool {
	switch name {
	case "alpha":
		return unicode.IsLetter(r)
	case "digit":
		return '0' <= r && r <= '9'
	case "alnum":
		return unicode.IsLetter(r) || unicode.IsDigit(r)
	case "upper":
		return unicode.IsUpper(r)
	case "lower":
		return unicode.IsLower(r)
	case "space":
		return unicode.IsSpace(r)
	case "punct":
		return unicode.IsPunct(r) || unicode.IsSymbol(r)
	case "xdigit":
		return strings.ContainsRune("0123456789abcdefABCDEF", r)
	}
	return false
}
