package plan

import (
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// always and never are what a host may answer.
func always() bool { return true }
func never() bool  { return false }

func allModes() fs.FileMode { return fs.ModePerm }
func noModes() fs.FileMode  { return 0 }
func readOnly() fs.FileMode { return 0o200 }

// nearest returns the time that SFTP has for another.
func nearest(t time.Time) time.Time {
	return time.Unix(min(max(t.Unix(), 0), math.MaxUint32), 0)
}

// newSync returns a sync without options, to a host that sets what it should.
func newSync() *Sync {
	return &Sync{Attributes: new(endpoint.Attributes), Owners: new(Owners), Nearest: nearest,
		KeepsTimes: always, KeepsModes: allModes}
}

var at = time.Unix(1_600_000_000, 0)

// file returns a file that Sync may meet.
func file(change func(f *endpoint.Info)) endpoint.Info {
	f := endpoint.Info{Mode: 0o644, HasMode: true, Size: 10, Mtime: at, Atime: at, HasTimes: true}
	if change != nil {
		change(&f)
	}
	return f
}

// TestSyncOf decides for each kind of difference, and what options make of it.
func TestSyncOf(t *testing.T) {
	larger := func(f *endpoint.Info) { f.Size++ }
	older := func(f *endpoint.Info) { f.Mtime = at.Add(-time.Minute) }
	newer := func(f *endpoint.Info) { f.Mtime = at.Add(time.Minute) }
	open := func(f *endpoint.Info) { f.Mode |= 0o111 }
	link := func(f *endpoint.Info) { f.Mode = fs.ModeSymlink | 0o777 }
	dir := func(f *endpoint.Info) { f.Mode = fs.ModeDir | 0o755 }
	owned := func(f *endpoint.Info) { f.Owner = localfs.Owner{UID: 1, Known: true} }
	soon := time.Now().Add(time.Hour)
	ahead := func(f *endpoint.Info) { f.Mtime = soon }
	ofAnother := func(f *endpoint.Info) { f.Owner = localfs.Owner{UID: 2, Known: true} }
	for name, test := range map[string]struct {
		options     func(s *Sync)
		here, there func(f *endpoint.Info) // there is missing with absent
		absent      bool
		halfway     bool
		want        Action
	}{
		"equal":                  {want: Action{Do: Same}},
		"missing":                {absent: true, want: Action{Do: Copy, Why: New}},
		"size":                   {here: larger, want: Action{Do: Copy, Why: Size}},
		"time":                   {here: newer, want: Action{Do: Copy, Why: Time}},
		"mode":                   {here: open, want: Action{Do: SetAttrs, Why: Mode}},
		"a link":                 {here: link, there: link, want: Action{Do: Compare, Why: Leads}},
		"a link for a file":      {there: link, want: Action{Do: Copy, Why: Type}},
		"a file for a link":      {here: link, want: Action{Do: Copy, Why: Type}},
		"in a directory's place": {there: dir, want: Action{Do: Copy, Why: Type}},
		"halfway":                {halfway: true, want: Action{Do: Copy, Why: Hash}},
		"a link is never halfway": {here: link, there: link, halfway: true,
			want: Action{Do: Compare, Why: Leads}},
		"the directory in its place is deleted first": {
			options: func(s *Sync) { s.Deletes = true }, there: dir,
			want: Action{Do: Postpone, Why: Type}},

		"update leaves what is newer": {options: func(s *Sync) { s.Update = true }, here: older,
			want: Action{Do: Skip, Why: Older}},
		"update copies what is older": {options: func(s *Sync) { s.Update = true }, here: newer,
			want: Action{Do: Copy, Why: Time}},
		"update goes on with a file": {options: func(s *Sync) { s.Update = true }, here: older,
			halfway: true, want: Action{Do: Copy, Why: Hash}},
		"within the window": {options: func(s *Sync) { s.Window = time.Minute }, here: newer,
			want: Action{Do: Same}},
		"checksum": {options: func(s *Sync) { s.Checksum = true },
			want: Action{Do: Compare, Why: Hash}},
		"checksum and size": {options: func(s *Sync) { s.Checksum = true }, here: larger,
			want: Action{Do: Copy, Why: Size}},
		"size only": {options: func(s *Sync) { s.SizeOnly = true }, here: newer,
			want: Action{Do: SetAttrs, Why: Touch}},
		"modified since": {options: func(s *Sync) { s.Since = at }, want: Action{Do: Copy, Why: Time}},
		"not since":      {options: func(s *Sync) { s.Since = at.Add(1) }, want: Action{Do: Same}},
		"its time is ahead": {options: func(s *Sync) { s.Since = at }, here: ahead, there: ahead,
			want: Action{Do: Same}},

		"too small": {options: func(s *Sync) { s.MinSize = 11 },
			want: Action{Do: Skip, Why: Unselected}},
		"too large": {options: func(s *Sync) { s.MaxSize = 9 }, absent: true,
			want: Action{Do: Skip, Why: Unselected}},
		"not so new": {options: func(s *Sync) { s.Newer = at.Add(1) },
			want: Action{Do: Skip, Why: Unselected}},
		"a small link": {options: func(s *Sync) { s.MinSize = 11 }, here: link, absent: true,
			want: Action{Do: Copy, Why: New}},
		"existing": {options: func(s *Sync) { s.Existing = true }, absent: true,
			want: Action{Do: Skip, Why: Unselected}},
		"ignored": {options: func(s *Sync) { s.IgnoreExisting = true }, here: larger,
			want: Action{Do: Skip, Why: Unselected}},

		"no times on the host": {options: func(s *Sync) { s.KeepsTimes = never }, here: newer,
			want: Action{Do: Same, Untimed: true}},
		"no times wanted": {options: func(s *Sync) { s.KeepsTimes, s.Attributes.NoTimes = never, true },
			here: newer, want: Action{Do: Same}},
		"no modes on the host": {options: func(s *Sync) { s.KeepsModes = noModes }, here: open,
			want: Action{Do: Same}},
		"permissions that Windows does not have": {options: func(s *Sync) { s.KeepsModes = readOnly },
			here: open, want: Action{Do: Same}},
		"read-only on Windows": {options: func(s *Sync) { s.KeepsModes = readOnly },
			here: func(f *endpoint.Info) { f.Mode = 0o444 }, want: Action{Do: SetAttrs, Why: Mode}},
		"no owners wanted": {here: owned, there: ofAnother, want: Action{Do: Same}},
		"owner": {options: func(s *Sync) { s.Attributes.Owners = true }, here: owned, there: ofAnother,
			want: Action{Do: SetAttrs, Why: Owner}},
		"owner where no modes are set": {options: func(s *Sync) {
			s.Attributes.Owners, s.KeepsModes = true, noModes
		}, here: func(f *endpoint.Info) { owned(f); open(f) }, there: ofAnother,
			want: Action{Do: SetAttrs, Why: Owner}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSync()
			if test.options != nil {
				test.options(s)
			}
			here, there, held := file(test.here), file(test.there), Held{}
			if !test.absent {
				held = s.Owners.Hold(&there)
			}
			if got := s.Of(&here, held, func() bool { return test.halfway }); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// TestSyncCompared: what is equal may yet lack attributes, and what differs keeps its reason.
func TestSyncCompared(t *testing.T) {
	for name, test := range map[string]struct {
		options func(s *Sync)
		change  func(f *endpoint.Info) // of the source
		differs bool
		want    Action
	}{
		"differs": {differs: true, want: Action{Do: Copy, Why: Hash}},
		"equal":   {want: Action{Do: Same}},
		"time": {change: func(f *endpoint.Info) { f.Mtime = at.Add(time.Minute) },
			want: Action{Do: SetAttrs, Why: Touch}},
		"no times": {options: func(s *Sync) { s.KeepsTimes = never },
			change: func(f *endpoint.Info) { f.Mtime = at.Add(time.Minute) }, want: Action{Do: Same}},
		"mode": {change: func(f *endpoint.Info) { f.Mode = 0o600 },
			want: Action{Do: SetAttrs, Why: Mode}},
		"no modes": {options: func(s *Sync) { s.KeepsModes = noModes },
			change: func(f *endpoint.Info) { f.Mode = 0o600 }, want: Action{Do: Same}},
		"the source tells no mode": {change: func(f *endpoint.Info) { f.Mode, f.HasMode = 0, false },
			want: Action{Do: Same}},
		"owner": {options: func(s *Sync) { s.Attributes.Owners = true },
			change: func(f *endpoint.Info) { f.Owner = localfs.Owner{UID: 1, Known: true} },
			want:   Action{Do: SetAttrs, Why: Owner}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSync()
			if test.options != nil {
				test.options(s)
			}
			there := file(nil)
			here := file(test.change)
			got := s.Compared(Action{Do: Compare, Why: Hash}, &here, s.Owners.Hold(&there), !test.differs)
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// TestSyncOfDir decides which directories are entered, and which are made.
func TestSyncOfDir(t *testing.T) {
	s := newSync()
	dir, other := file(func(f *endpoint.Info) { f.Mode = fs.ModeDir | 0o755 }), file(nil)
	heldDir, heldFile := s.Owners.Hold(&dir), s.Owners.Hold(&other)
	for _, test := range []struct {
		there Held
		only  Only
		want  Action
	}{
		{there: Held{}, want: Action{Do: Make, Why: New}},
		{there: heldDir, want: Action{Do: Enter}},
		{there: heldFile, want: Action{Do: Make, Why: Type}},
		{there: Held{}, only: Only{Existing: true}, want: Action{Do: Skip, Why: Unselected}},
		{there: heldFile, only: Only{IgnoreExisting: true}, want: Action{Do: Skip, Why: Unselected}},
		{there: heldDir, only: Only{Existing: true, IgnoreExisting: true}, want: Action{Do: Enter}},
	} {
		s.Only = test.only
		if got := s.OfDir(test.there); got != test.want {
			t.Errorf("%+v with %+v: %+v, want %+v", test.there, test.only, got, test.want)
		}
	}
}

// TestTimesThatAHostCannotHave: what a host has of a time that SFTP cannot carry is no difference.
func TestTimesThatAHostCannotHave(t *testing.T) {
	s := newSync()
	for _, seconds := range []int64{-1, math.MaxUint32 + 1} {
		here := file(func(f *endpoint.Info) {
			f.Mtime = time.Unix(seconds, 0)
			f.Local = localInfo{}
		})
		there := file(func(f *endpoint.Info) { f.Mtime = nearest(here.Mtime) })
		if got := s.Of(&here, s.Owners.Hold(&there), never); got != (Action{Do: Same}) {
			t.Errorf("%d: %+v", seconds, got)
		}
	}
}

// localInfo marks a file as one of this machine.
type localInfo struct{ fs.FileInfo }

// TestNothingIsAllocated: a sync decides about a million entries.
func TestNothingIsAllocated(t *testing.T) {
	s := newSync()
	here := file(nil)
	v := NewInventory(&Folding{Case: never, Letters: never}, s.Owners)
	v.Add("name", &here)
	v.Sort()
	selection := &Selection{Lock: "lock"}
	if n := testing.AllocsPerRun(100, func() {
		held := v.Take("name")
		if selection.Excludes("dir", "name", false, nil) ||
			selection.Of("name", &here).Do != Copy ||
			s.Of(&here, held, func() bool { return held.Kind() == Dir }).Do != Same {
			t.Error("it is not equal")
		}
	}); n > 0 {
		t.Errorf("%v allocations for an entry", n)
	}
}
