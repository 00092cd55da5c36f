package sshd

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/usftp/usftp/internal/sshpattern"
)

// addressList is the value of from= in authorized_keys, and of source-address in certificates:
// addresses with wildcards, or in CIDR form, some of them negated (sshd(8), ssh_config(5)
// PATTERNS).
type addressList []addressPattern

type addressPattern struct {
	negated  bool
	prefix   netip.Prefix // if it is valid
	wildcard string
}

// parseAddressList parses a list. Host names are not looked up, since the owner of an address
// controls the name it claims. A pattern that could be a host name is an error.
func parseAddressList(text string) (list addressList, err error) {
	for item := range strings.SplitSeq(text, ",") {
		var p addressPattern
		item = strings.TrimSpace(item)
		if rest, ok := strings.CutPrefix(item, "!"); ok {
			p.negated, item = true, rest
		}
		one, wrong := netip.ParseAddr(item)
		switch {
		case item == "":
			return nil, fmt.Errorf("an empty pattern in %q", text)
		case strings.Contains(item, "/"):
			if p.prefix, err = netip.ParsePrefix(item); err != nil {
				return nil, err
			}
			if p.prefix != p.prefix.Masked() { // one address, or all of its network? sshd refuses it, too
				return nil, fmt.Errorf("%q: the address has bits beyond the mask", item)
			}
		case wrong == nil && one.Zone() == "": // not as text: one address has many spellings
			p.prefix = netip.PrefixFrom(one.Unmap(), one.Unmap().BitLen())
		case strings.Trim(item, "0123456789abcdefABCDEF.:*?") != "":
			return nil, fmt.Errorf("%q is not an address; host names are not looked up", item)
		default:
			p.wildcard = strings.ToLower(item)
		}
		list = append(list, p)
	}
	return list, nil
}

// allows reports whether an address matches one of the patterns and no negated one.
func (list addressList) allows(address netip.Addr) bool {
	address = address.Unmap().WithZone("") // no prefix contains an address with a zone
	return sshpattern.MatchList(list, func(p addressPattern) (matches, negated bool) {
		if p.prefix.IsValid() {
			return p.prefix.Contains(address), p.negated
		}
		return sshpattern.Match(p.wildcard, address.String()), p.negated
	})
}
