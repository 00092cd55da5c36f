package sshd

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/usftp/usftp/internal/sshpattern"
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
			return nil, fmt.Errorf("%q is not an address; host names are not looked up", item)
		default:
			p.wildcard = strings.ToLower(item)
		}
		list = append(list, p)
	}
	return list, nil
}

// allows reports whether an address matches one of the patterns and none that is negated.
func (list addressList) allows(address netip.Addr) bool {
	return sshpattern.MatchList(list, func(p addressPattern) (matches, negated bool) {
		if p.prefix.IsValid() {
			return p.prefix.Contains(address), p.negated
		}
		return sshpattern.Match(p.wildcard, address.String()), p.negated
	})
}
