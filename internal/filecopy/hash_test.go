package filecopy

import "testing"

// TestNoHashCostsNothing: without a hash nothing stands between source and target.
func TestNoHashCostsNothing(t *testing.T) {
	c := &Copy{Request: Request{Run: new(Run)}}
	c.hashing.start(c, nil)
	c.hashing.small(c, []byte("x"))
	if c.hashing.pipe != nil || c.hashing.digests != nil {
		t.Error("something is hashed")
	}
	if err := c.hashing.finish(c); err != nil || !c.hashing.hash.IsZero() {
		t.Errorf("%v, %v", c.hashing.hash, err)
	}
}
