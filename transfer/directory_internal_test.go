package transfer

import (
	"strconv"
	"testing"
)

// A host that sends one name, or names of one form, without end makes no work that grows with
// their number; and of names that differ none is taken for another's.
func TestSourceNames(t *testing.T) {
	var n sourceNames
	for i := range 1000 {
		if others := n.add("name"); i > 0 && len(others) != 1 {
			t.Fatalf("the same name is there %d times", len(others))
		}
	}
	for i := range 1 << 10 {
		name := []byte("abcdefghij")
		for bit := range name {
			if i>>bit&1 == 1 {
				name[bit] -= 'a' - 'A'
			}
		}
		if others := n.add(string(name)); (len(others) > 0) != (i > 0) || len(others) > 2*mostTwins {
			t.Fatalf("spelling %d: %d others", i, len(others))
		}
	}
	for i := range 2 * mostNamesKept {
		if others := n.add("f" + strconv.Itoa(i)); len(others) > 0 {
			t.Fatalf("f%d is taken for %q", i, others)
		}
	}
}
