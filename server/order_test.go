package server

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/usftp/usftp/wire"
)

func TestTouches(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/a", "/a", true}, {"/a", "/a/b", true}, {"/a/b", "/a", true}, {"/", "/a", true}, {"/a",
			"/", true}, {"/", "/", true},
		{"/a", "/ab", false}, {"/a/b", "/a/c", false}, {"/a", "/b", false}, {"/ab/c", "/a", false},
	} {
		if got := touches(c.a, c.b); got != c.want {
			t.Errorf("touches(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

// depends states the promised order again, as plainly as possible: whether r, the later one, must
// wait for e.
func depends(r, e *request) bool {
	onHandle := func(r *request, h *handle) bool { return r.handle == h || r.target == h }
	switch {
	case r.handle != nil && e.handle != nil:
		for _, h := range []*handle{r.handle, r.target} {
			if h != nil && onHandle(e, h) && mustFollow(r, e, h) {
				return true
			}
		}
		return false
	case !r.changes && !e.changes:
		return false
	case r.handle == nil && e.handle == nil:
		return r.touchesRequest(e)
	case r.handle == nil:
		r, e = e, r
	}
	return e.touches(r.handle.path) || r.target != nil && e.touches(r.target.path)
}

// TestScheduleKeepsOrder runs random requests that finish in random order, and checks every start.
func TestScheduleKeepsOrder(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			runSchedule(t,
				rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func runSchedule(t *testing.T, random *rand.Rand) {
	paths := []string{"/", "/a", "/a/b", "/a/c", "/ab", "/d/e/f"}
	var handles []*handle
	for i := range 4 {
		handles = append(handles, &handle{path: paths[1+random.IntN(len(paths)-1)],
			flags: wire.OpenRead | wire.OpenWrite})
		if i == 3 {
			handles[i].flags |= wire.OpenAppend
		}
	}
	var s schedule
	var waiting, running []*request
	started, total := 0, 200
	const room = 1000
	memory := 0
	for seq := uint64(1); started < total; {
		switch {
		case seq <= uint64(total) && random.IntN(2) == 0:
			r := randomRequest(random, handles, paths)
			r.seq = seq
			seq++
			s.add(r)
			waiting = append(waiting, r)
		case len(running) > 0 && random.IntN(2) == 0:
			i := random.IntN(len(running))
			r := running[i]
			running = append(running[:i], running[i+1:]...)
			s.done(r)
			memory -= r.charge
		default:
			r := s.next(room - memory)
			if r == nil {
				if len(waiting) > 0 && len(running) == 0 {
					t.Fatalf("%d requests wait for nothing", len(waiting))
				}
				continue
			}
			for _, e := range running {
				if e.seq < r.seq && depends(r, e) || e.seq > r.seq && depends(e, r) {
					t.Fatalf("%v (%d) runs beside %v (%d)", r.op, r.seq, e.op, e.seq)
				}
			}
			for _, e := range waiting {
				if e.seq < r.seq && depends(r, e) {
					t.Fatalf("%v (%d) overtakes %v (%d)", r.op, r.seq, e.op, e.seq)
				}
			}
			for i := range waiting {
				if waiting[i] == r {
					waiting = append(waiting[:i], waiting[i+1:]...)
					break
				}
			}
			s.start(r)
			started++
			memory += r.charge
			running = append(running, r)
		}
	}
	for _, r := range running {
		s.done(r)
	}
	if s.waiting != 0 || s.running != 0 || len(s.active) != 0 || s.paths.len() != 0 ||
		s.pathsWaiting != 0 {
		t.Errorf("what is left: %+v", s)
	}
}

func randomRequest(random *rand.Rand, handles []*handle, paths []string) *request {
	r := &request{offset: uint64(random.IntN(10)), length: uint64(random.IntN(5)),
		charge: random.IntN(3) * 400}
	path := func() string { return paths[random.IntN(len(paths))] }
	switch random.IntN(4) {
	case 0:
		r.op, r.path = opStat, path()
	case 1:
		r.op, r.path, r.path2, r.changes = opRename, path(), path(), true
	default:
		r.handle = handles[random.IntN(len(handles))]
		switch random.IntN(8) {
		case 0, 1, 2:
			r.op = opRead
		case 3, 4:
			r.op, r.changes = opWrite, true
		case 5:
			r.op = []operation{opFstat, opFsync, opCheckFileHandle}[random.IntN(3)]
		case 6:
			r.op, r.changes = opFsetstat, true
		case 7:
			r.op, r.changes = opCopyData, true
			r.target, r.toOffset = handles[random.IntN(len(handles))], uint64(random.IntN(10))
		}
	}
	return r
}
