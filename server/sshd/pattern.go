package sshd

import (
	"fmt"
	"net/netip"
	"strings"
)

// addressList is what the option from= of authorized_keys, and source-address of certificates,
// list: addresses with wildcards, or in CIDR form, some of them negated (sshd(8), ssh_config(5)
// PATTERNS).
type addressList []addressPattern

type addressPattern struct {
	negated  bool
	prefix   netip.Prefix // if it is valid
	wildcard string
}

// parseAddressList parses a list. Names of hosts are not looked up: whoever controls an address
// controls what it claims to be called. A pattern that could be one is an error.
func parseAddressList(text string) (list addressList, err error) {
	for item := range strings.SplitSeq(text, ",") {
		var p addressPattern
		item = strings.TrimSpace(item)
		if rest, ok := strings.CutPrefix(item, "!"); ok {
			p.negated, item = true, rest
		}
		switch {
		case item == "":
			return nil, fmt.Errorf("an empty pattern in %q", text)
		case strings.Contains(item, "/"):
			if p.prefix, err = netip.ParsePrefix(item); err != nil {
				return nil, err
			}
		case strings.Trim(item, "0123456789abcdefABCDEF.:*?") != "":
			return nil, fmt.Errorf("%q is no address; names of hosts are not looked up", item)
		default:
			p.wildcard = strings.ToLower(item)
		}
		list = append(list, p)
	}
	return list, nil
}

// allows tells whether an address matches one of the patterns and none that is negated.
func (list addressList) allows(address netip.Addr) bool {
	found := false
	for _, p := range list {
		var match bool
		if p.prefix.IsValid() {
			match = p.prefix.Contains(address)
		} else {
			match = matchWildcard(p.wildcard, address.String())
		}
		if match && p.negated {
			return false
		}
		found = found || match
	}
	return found
}

// matchWildcard matches "*" and "?" in time linear in each, whatever the pattern.
func matchWildcard(pattern, text string) bool {
	star, mark := -1, 0
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
