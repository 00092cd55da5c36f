//go:build unix

package store

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/objectfs"
)

// A name that is no text, as clients may choose.
const oddName = "dir/\xff\xfe'%_"

func lock(t *testing.T, s objectfs.State, name string) objectfs.Upload {
	t.Helper()
	u, err := s.Lock(t.Context(), name, "")
	must(t, err)
	return u
}

// is checks an error.
func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

// testObjects: what one node knows of an upload all do.
func testObjects(t *testing.T, name string) {
	one, two := patient(t, name).Objects("b"), patient(t, name).Objects("b")
	ctx := t.Context()
	first := lock(t, one, oddName)
	if want := (objectfs.Upload{Name: oddName, Fence: first.Fence, Locked: true}); first != want ||
		first.Fence == 0 {
		t.Errorf("a new upload: %+v", first)
	}
	_, err := two.Lock(ctx, oddName, "")
	is(t, err, objectfs.ErrLocked)
	found, err := two.Find(ctx, oddName)
	if err != nil || found != first {
		t.Errorf("found: %+v, %v", found, err)
	}
	_, err = two.Find(ctx, "dir/")
	is(t, err, fs.ErrNotExist)
	is(t, two.Unlock(ctx, first, false), objectfs.ErrLocked) // it is not that node's to give back
	_, err = two.Lock(ctx, oddName, "")
	is(t, err, objectfs.ErrLocked)

	first.Target, first.ID, first.Last, first.Size = "dir/\xff", "id", 3, 1<<40
	first.Begun, first.MTime = time.UnixMilli(1700000000123), time.Unix(0, 0)
	first.Closed, first.Broken, first.ETag = true, true, "sum-3"
	must(t, one.Update(ctx, first))
	is(t, two.Update(ctx, first), objectfs.ErrLocked)
	must(t, one.Unlock(ctx, first, true))
	second := lock(t, two, oddName)
	if second.Fence <= first.Fence {
		t.Errorf("the number %d follows %d", second.Fence, first.Fence)
	}
	first.Fence = second.Fence
	if second != first {
		t.Errorf("resumed: %+v, want %+v", second, first)
	}
	for prefix, want := range map[string]int{"": 1, "dir/": 1, "dir/\xff": 1, "dir/\xff\xfe'%_x": 0,
		"dis": 0, "\xff": 0, "Dir/": 0} {
		if list, err := one.Pending(ctx, prefix); err != nil || len(list) != want ||
			want == 1 && list[0] != second {
			t.Errorf("pending below %q: %+v, %v", prefix, list, err)
		}
	}
	must(t, two.(objects).store.do(ctx, func(t tx) error { // as an older version does
		return t.run(`UPDATE uploads SET fence = fence + 1`)
	}))
	second.Fence++
	if found, err = one.Find(ctx, oddName); err != nil || found.ETag != "" {
		t.Errorf("an ETag from before an older version had the upload: %s, %v", found.ETag, err)
	}
	must(t, two.Unlock(ctx, second, false))
	must(t, two.(objects).store.do(ctx, cleanUploads))
	_, err = one.Find(ctx, oddName)
	is(t, err, fs.ErrNotExist)
	third := lock(t, one, oddName)
	if third.ID != "" || third.Fence <= second.Fence {
		t.Errorf("what was forgotten: %+v", third)
	}
	is(t, two.Unlock(ctx, second, false), objectfs.ErrLocked) // it is somebody else's now
	_, err = two.Lock(ctx, oddName, "")
	is(t, err, objectfs.ErrLocked)

	at := time.Unix(1<<32-1, 0)
	must(t, one.SetTime(ctx, oddName, "old", time.Unix(1, 0)))
	must(t, one.SetTime(ctx, oddName, "etag", at))
	times := func(state objectfs.State, keys ...string) map[string]objectfs.Stamp {
		t.Helper()
		found, err := state.Times(ctx, keys)
		must(t, err)
		return found
	}
	if got := times(two, "none", oddName); len(got) != 1 ||
		got[oddName] != (objectfs.Stamp{ETag: "etag", MTime: at}) {
		t.Errorf("times: %v", got)
	}
	must(t, two.SetTime(ctx, oddName, "old", time.Time{}))
	if got := times(one, oddName)[oddName]; got.ETag != "etag" {
		t.Errorf("the time of a newer object is cleared: %v", got)
	}
	must(t, two.SetTime(ctx, oddName, "etag", time.Time{}))
	if got := times(one, oddName); len(got) != 0 || len(times(one)) != 0 {
		t.Errorf("times: %v", got)
	}
}

// testObjectsOfADeadNode: others go on with what a node was writing, which has lost the right.
func testObjectsOfADeadNode(t *testing.T, name string) {
	dead, other, slow := patient(t, name), patient(t, name), patient(t, name)
	old := lock(t, dead.Objects("b"), "f")
	begun := time.Now().Add(-time.Minute)
	old.ID, old.Begun = "id", begun.Add(-time.Hour)
	must(t, dead.Objects("b").Update(t.Context(), old))
	lock(t, dead.Objects("b"), "empty")
	dead.kill()
	undertaker := node(t, name)
	var now objectfs.Upload
	testenv.Until(t, "the right is free", func() (free bool) {
		var err error
		now, err = other.Objects("b").Lock(t.Context(), "f", "")
		return err == nil
	})
	must(t, undertaker.Close()) // before it takes others for dead that are slow
	if now.ID != "id" || now.Fence <= old.Fence {
		t.Errorf("resumed: %+v", now)
	}
	if now.Begun.Before(begun) {
		t.Errorf("its client went on until the node died, and it is as old as %s", now.Begun)
	}
	_, err := other.Objects("b").Find(t.Context(), "empty")
	is(t, err, fs.ErrNotExist)

	// One that was only taken for dead.
	mine := lock(t, slow.Objects("b"), "g")
	mine.ID = "id"
	must(t, slow.Objects("b").Update(t.Context(), mine))
	must(t, other.do(t.Context(), func(t tx) error { return forget(t, slow.node) }))
	must(t, other.Objects("b").Unlock(t.Context(), lock(t, other.Objects("b"), "g"), true))
	is(t, slow.Objects("b").Update(t.Context(), mine), objectfs.ErrLocked)
	is(t, slow.Objects("b").Unlock(t.Context(), mine, false), objectfs.ErrLocked)
	theirs := objectfs.Stamp{ETag: "theirs", MTime: time.UnixMilli(1)}
	must(t, other.Objects("b").SetTime(t.Context(), "g", theirs.ETag, theirs.MTime))
	is(t, slow.Objects("b").Settle(t.Context(), mine, "g", objectfs.Stamp{ETag: "mine",
		MTime: time.UnixMilli(2)}), objectfs.ErrLocked)
	if _, err := other.Objects("b").Find(t.Context(), "g"); err != nil {
		t.Errorf("who had lost the right has removed the upload: %v", err)
	}
	if times, err := other.Objects("b").Times(t.Context(), []string{"g"}); err != nil ||
		times["g"] != theirs {
		t.Errorf("who had lost the right has set the time: %v, %v", times, err)
	}
}

// testObjectsInAnOutage: nothing is written, times do not matter, and what could not be given back
// is given back later.
func testObjectsInAnOutage(t *testing.T, name string) {
	s, other := patient(t, name), patient(t, name)
	state := s.Objects("b")
	done, kept, open := lock(t, state, "done"), lock(t, state, "kept"), lock(t, state, "open")
	settled := lock(t, state, "settled")
	begun := time.Now().Add(-time.Minute)
	for _, u := range []*objectfs.Upload{&done, &settled, &kept} {
		u.ID, u.Begun, u.Closed = "id", begun.Add(-time.Hour), u != &kept
		must(t, state.Update(t.Context(), *u))
	}
	end := outage(t, s)
	defer end()
	testenv.Until(t, "the store is down", s.Down)
	_, err := state.Lock(t.Context(), "new", "")
	is(t, err, ErrDown)
	is(t, state.Update(t.Context(), open), ErrDown)
	is(t, state.Unlock(t.Context(), kept, true), ErrDown)
	must(t, state.Unlock(t.Context(), done, false))
	must(t, state.Settle(t.Context(), settled, "f", objectfs.Stamp{}))
	must(t, state.SetTime(t.Context(), "f", "", time.Time{}))
	is(t, state.SetTime(t.Context(), "f", "etag", time.Unix(1, 0)), ErrDown)
	if times, err := state.Times(t.Context(), []string{"f"}); err != nil || len(times) != 0 {
		t.Errorf("times: %v, %v", times, err)
	}
	end()
	for _, name := range []string{"done", "settled", "kept", "new"} {
		testenv.Until(t, name+" is free", func() bool {
			u, err := other.Objects("b").Lock(t.Context(), name, "")
			if err == nil && u.ID != "" && u.Begun.Before(begun) {
				t.Errorf("%s was given back now, and is as old as %s", name, u.Begun)
			}
			if err == nil && (u.ID != "") != (name == "kept") {
				t.Errorf("%s is pending: %+v", name, u)
			}
			return err == nil
		})
	}
	testenv.Until(t, "the store is back", func() bool { return !s.Down() }) // for this node, too
	must(t, state.Update(t.Context(), open))
	_, err = other.Objects("b").Lock(t.Context(), "open", "")
	is(t, err, objectfs.ErrLocked)
}
