package transfer

import "hash/maphash"

// names remembers the names of a listing, so that one that was cut off can be begun anew and
// nothing in it done twice. It keeps eight bytes of each: that two of a million names are taken for
// one, and a file so is missed, has a chance of one to thirty million, and nobody who chooses the
// names can make it larger.
type names struct {
	seed  maphash.Seed
	added []uint64            // since the listing began
	known map[uint64]struct{} // when it began
}

func newNames() *names { return &names{seed: maphash.MakeSeed()} }

// add remembers a name.
func (n *names) add(name string) { n.added = append(n.added, maphash.String(n.seed, name)) }

// has tells whether a name was there before the listing was begun anew.
func (n *names) has(name string) bool {
	if n.known == nil {
		return false
	}
	_, there := n.known[maphash.String(n.seed, name)]
	return there
}

// again begins the listing anew.
func (n *names) again() {
	if n.known == nil {
		n.known = make(map[uint64]struct{}, len(n.added))
	}
	for _, sum := range n.added {
		n.known[sum] = struct{}{}
	}
	n.added = nil
}
