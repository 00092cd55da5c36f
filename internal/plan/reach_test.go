package plan

import "testing"

// Renames are made at once only if their order does not matter.
func TestUnrelatedRenames(t *testing.T) {
	for name, c := range map[string]struct {
		renames []Rename
		want    int
	}{
		"none":             {nil, 0},
		"unrelated":        {[]Rename{{"a", "b"}, {"c/d", "c/e"}, {"c/f", "g"}}, 3},
		"similar names":    {[]Rename{{"a", "b"}, {"ab", "bc"}, {"a.b", "b.c"}}, 3},
		"one after other":  {[]Rename{{"a", "b"}, {"b", "c"}}, 1},
		"a place is freed": {[]Rename{{"a", "b"}, {"c", "a"}}, 1},
		"into a new one":   {[]Rename{{"a", "b"}, {"c", "b/c"}}, 1},
		"out of one":       {[]Rename{{"a/x", "b"}, {"a", "c"}}, 1},
		"not clean":        {[]Rename{{"a", "./b/"}, {"c/../b/x", "d"}}, 1},
		"in the same way":  {[]Rename{{"a/x", "a/y"}, {"a/x", "a/z"}}, 1},
		"to the top":       {[]Rename{{"a/x", "x"}, {"y", "a/y"}}, 2},
		"outside":          {[]Rename{{"../a", "/b"}, {"../a/c", "d"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unrelated(c.renames); got != c.want {
				t.Errorf("%d of %v may be made at once, want %d", got, c.renames, c.want)
			}
		})
	}
	many := make([]Rename, 3*RenamesAtOnce)
	for i := range many {
		many[i] = Rename{From: string(rune('a'+i)) + "/x", To: string(rune('a'+i)) + "/y"}
	}
	if got := Unrelated(many); got != RenamesAtOnce {
		t.Errorf("%d renames at once, want %d", got, RenamesAtOnce)
	}
}
