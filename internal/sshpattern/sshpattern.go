// Package sshpattern matches the patterns of known_hosts, ssh_config and from= in authorized_keys
// (ssh_config(5), PATTERNS). They are not those of files: brackets are literal, as in "[host]:port",
// and "*" matches slashes.
package sshpattern

import "strings"

// Match reports whether a pattern with "*" and "?" matches all of text. Case counts. It takes time
// no worse than the product of the lengths, whatever the pattern.
func Match(pattern, text string) bool {
	star, mark := -1, 0 // the last "*", and how far what it matches reaches
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

// MatchList reports whether one of the items of a list matches and none that is negated by "!".
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
