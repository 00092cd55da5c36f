package buffer

import (
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

func TestBlockIsReused(t *testing.T) {
	var p Pool
	defer p.Close()
	b := p.Get(Large)
	if p.Out() != Large {
		t.Errorf("Out is %d, want %d", p.Out(), Large)
	}
	b.Release()
	if again := p.Get(Large - 1); again != b {
		t.Error("a released block was not lent again")
	} else {
		again.Release()
	}
	if p.Out() != 0 {
		t.Errorf("Out is %d after all came back", p.Out())
	}
}

func TestSizesAndOddBlocks(t *testing.T) {
	var p Pool
	defer p.Close()
	for _, test := range []struct{ ask, get int }{
		{0, Small}, {Small, Small}, {Small + 1, Medium}, {Medium + 1, Large}, {Large,
			Large}, {Large + 1, Packet}, {Packet + 1, Packet + 1},
	} {
		b := p.Get(test.ask)
		if len(b.Bytes()) != test.get {
			t.Errorf("Get(%d) lent %d bytes, want %d", test.ask, len(b.Bytes()), test.get)
		}
		b.Release()
	}
	if want := int64(Small + Medium + Large + Packet); p.Kept() != want {
		t.Errorf("Kept is %d, want %d: one of each class and no odd one", p.Kept(), want)
	}
}

func TestForgottenBlockIsNotLent(t *testing.T) {
	var p Pool
	defer p.Close()
	b := p.Get(Small)
	b.Forget()
	if p.Out() != 0 || p.Kept() != 0 {
		t.Errorf("out %d, kept %d, want none", p.Out(), p.Kept())
	}
	if p.Get(Small) == b {
		t.Error("a forgotten block was lent again")
	}
}

func TestIdlePoolLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		var blocks []*Block
		for range 10 {
			blocks = append(blocks, p.Get(Large))
		}
		for _, b := range blocks {
			b.Release()
		}
		// virtual time: blocks needed in the first period are freed after the second
		time.Sleep(2*idleAfter + time.Second)
		if kept := p.Kept(); kept != 0 {
			t.Errorf("%d bytes are kept after two idle periods", kept)
		}
	})
}

// TestBlocksLetGoAreLentAgain: between bursts a pool lets its blocks go. While the garbage
// collector has not run, they are lent again, instead of new ones beside them; after it has, they
// are gone.
func TestBlocksLetGoAreLentAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		defer p.Close()
		const burst = 8
		var last weak.Pointer[Block]
		seen := make(map[weak.Pointer[Block]]bool)
		for range 5 {
			var blocks []*Block
			for range burst {
				b := p.Get(Large)
				last = weak.Make(b)
				seen[last] = true
				blocks = append(blocks, b)
			}
			for _, b := range blocks {
				b.Release()
			}
			time.Sleep(3 * idleAfter)
			if kept := p.Kept(); kept != 0 {
				t.Fatalf("%d bytes are kept", kept)
			}
		}
		if len(seen) != burst {
			t.Errorf("bursts of %d blocks took %d", burst, len(seen))
		}
		runtime.GC()
		if last.Value() != nil {
			t.Error("a block that was let go outlives a garbage collection")
		}
	})
}

func TestBusyPoolKeepsWhatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		for range 100 {
			a, b := p.Get(Large), p.Get(Large)
			time.Sleep(idleAfter / 3)
			a.Release()
			b.Release()
		}
		if kept := p.Kept(); kept != 2*Large {
			t.Errorf("%d bytes kept under steady use of two blocks", kept)
		}
		p.Close()
	})
}

// TestClosedPoolKeepsNothing: a block returned late is not kept, and does not restart the timer.
func TestClosedPoolKeepsNothing(t *testing.T) {
	var p Pool
	early, late := p.Get(Large), p.Get(Large)
	early.Release()
	p.Close()
	late.Release()
	if p.Kept() != 0 || p.Out() != 0 {
		t.Errorf("kept %d, out %d after Close, want none", p.Kept(), p.Out())
	}
	if p.armed || p.timer.Stop() {
		t.Error("the timer of a closed pool runs")
	}
}
