package ssh

import "testing"

// TestBlocksThatChannelsMayHold: however many channels have come and gone, and however far their
// windows had grown, channels may hold as many blocks as at first.
func TestBlocksThatChannelsMayHold(t *testing.T) {
	m := deafMux(nil)
	m.growth.keep()
	first := m.t.in.maxKept.Load()
	for range 1000 {
		var grown int64
		for size := int64(firstWindow); size < defaultWindow; size *= 2 {
			grown += m.growth.take(size)
		}
		want := int32(keptBlocks + 2*defaultWindow/blockSize)
		if most := m.t.in.maxKept.Load(); most != want {
			t.Fatalf("%d blocks may be held with windows of %d bytes, not %d", most,
				int64(defaultWindow), want)
		}
		m.growth.give(grown)
	}
	if now := m.t.in.maxKept.Load(); now != first {
		t.Errorf("%d blocks may be held in the end, and %d at first", now, first)
	}
}
