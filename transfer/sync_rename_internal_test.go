package transfer

import "testing"

// Renames are made at once only if their order does not matter.
func TestUnrelatedRenames(t *testing.T) {
	for name, c := range map[string]struct {
		renames []SyncRename
		want    int
	}{
		"none":             {nil, 0},
		"unrelated":        {[]SyncRename{{"a", "b"}, {"c/d", "c/e"}, {"c/f", "g"}}, 3},
		"similar names":    {[]SyncRename{{"a", "b"}, {"ab", "bc"}, {"a.b", "b.c"}}, 3},
		"one after other":  {[]SyncRename{{"a", "b"}, {"b", "c"}}, 1},
		"a place is freed": {[]SyncRename{{"a", "b"}, {"c", "a"}}, 1},
		"into a new one":   {[]SyncRename{{"a", "b"}, {"c", "b/c"}}, 1},
		"out of one":       {[]SyncRename{{"a/x", "b"}, {"a", "c"}}, 1},
		"not clean":        {[]SyncRename{{"a", "./b/"}, {"c/../b/x", "d"}}, 1},
		"in the same way":  {[]SyncRename{{"a/x", "a/y"}, {"a/x", "a/z"}}, 1},
		"to the top":       {[]SyncRename{{"a/x", "x"}, {"y", "a/y"}}, 2},
		"outside":          {[]SyncRename{{"../a", "/b"}, {"../a/c", "d"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unrelated(c.renames); got != c.want {
				t.Errorf("%d of %v may be made at once, want %d", got, c.renames, c.want)
			}
		})
	}
	many := make([]SyncRename, 3*renamesAtOnce)
	for i := range many {
		many[i] = SyncRename{From: string(rune('a'+i)) + "/x", To: string(rune('a'+i)) + "/y"}
	}
	if got := unrelated(many); got != renamesAtOnce {
		t.Errorf("%d renames at once, want %d", got, renamesAtOnce)
	}
}
