// Package sshpattern matches the patterns of known_hosts, ssh_config and from= in authorized_keys
// (ssh_config(5), PATTERNS). They differ from file name patterns: brackets are literal, as in
// "[host]:port", and "*" matches slashes.
package sshpattern

import "strings"

// Match reports whether a pattern with "*" and "?" matches all of text. It is case-sensitive. Its
// time is at worst proportional to the product of the lengths, whatever the pattern.
func Match(pattern, text string) bool {
	star, mark := -1, 0 // the last "*", and the end of its match
	p := 0
	for t := 0; t < len(text); {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// MatchList reports whether at least one item of a list matches and no matching item is negated by
// "!".
func MatchList[T any](list []T, match func(T) (matches, negated bool)) bool {
	found := false
	for _, item := range list {
		matches, negated := match(item)
		if matches && negated {
			return false
		}
		found = found || matches
	}
	return found
}
