package plan

import (
	"io/fs"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
)

// A Sync decides the Action for each entry of a sync. It is fixed once the tree is walked.
type Sync struct {
	Only
	Update   bool // entries that are newer at the target stay
	Checksum bool
	SizeOnly bool
	Window   time.Duration // how much times may differ
	Since    time.Time     // files modified since then may have been modified twice
	Deletes  bool

	Attributes *endpoint.Attributes // which ones the target should get
	Owners     *Owners

	// Nearest returns the time that the target stores for another.
	Nearest func(time.Time) time.Time

	// KeepsTimes and KeepsModes return whether the target sets times, and which permissions it sets;
	// they may have to find that out.
	KeepsTimes func() bool
	KeepsModes func() fs.FileMode
}

// Only selects the files to copy. Package transfer describes it.
type Only struct {
	MinSize, MaxSize         int64
	Newer                    time.Time
	Existing, IgnoreExisting bool
}

// leavesOut reports whether an entry is not to be made or changed.
func (o *Only) leavesOut(f *endpoint.Info, there Held) bool {
	return f.Mode.IsRegular() && (o.MinSize > 0 && f.Size < o.MinSize ||
		o.MaxSize > 0 && f.Size > o.MaxSize || !o.Newer.IsZero() && f.Mtime.Before(o.Newer)) ||
		!there.IsThere() && o.Existing || there.IsThere() && o.IgnoreExisting
}

// OfDir returns the Action for a directory.
func (s *Sync) OfDir(there Held) Action {
	switch isDir := there.IsThere() && there.Kind() == Dir; {
	case !there.IsThere() && s.Existing, there.IsThere() && !isDir && s.IgnoreExisting:
		return Action{Do: Skip, Why: Unselected}
	case isDir:
		return Action{Do: Enter}
	case !there.IsThere():
		return Action{Do: Make, Why: New}
	}
	return Action{Do: Make, Why: Type}
}

// Of returns the Action for a file or a link, judging by both listings. halfway reports whether an
// earlier run has overwritten the target and did not come to the end.
func (s *Sync) Of(f *endpoint.Info, there Held, halfway func() bool) Action {
	regular := f.Mode.IsRegular()
	switch {
	case s.leavesOut(f, there):
		return Action{Do: Skip, Why: Unselected}
	case !there.IsThere():
		return Action{Do: Copy, Why: New}
	case there.Kind() == Dir && s.Deletes:
		return Action{Do: Postpone, Why: Type}
	case there.Kind() != kindOf(f.Mode):
		return Action{Do: Copy, Why: Type}
	case regular && halfway():
		return Action{Do: Copy, Why: Hash}
	}
	stored := s.stored(f)
	if age, known := there.age(stored); regular && s.Update && known && age < -s.Window {
		return Action{Do: Skip, Why: Older}
	}
	sameSize, sameTime := there.sameSize(f), there.sameTime(stored, s.Window)
	untimed := !sameTime && regular && sameSize && !s.KeepsTimes()
	sameTime = sameTime || untimed
	var a Action
	switch {
	case !regular: // listings do not say where links lead
		a = Action{Do: Compare, Why: Leads}
	case !sameSize:
		a = Action{Do: Copy, Why: Size}
	case s.Checksum:
		a = Action{Do: Compare, Why: Hash}
	case !s.SizeOnly && (!sameTime || !s.Since.IsZero() && !f.Mtime.Before(s.Since) &&
		f.Mtime.Before(time.Now().Add(time.Second))):
		a = Action{Do: Copy, Why: Time}
	default:
		a = s.ofEqual(f, there, sameTime)
	}
	a.Untimed = untimed && !s.Attributes.NoTimes && !s.SizeOnly
	return a
}

// Compared returns the Action for a file or a link for which Of returned a, once the comparison has
// found whether both are the same.
func (s *Sync) Compared(a Action, f *endpoint.Info, there Held, same bool) Action {
	if !same {
		return Action{Do: Copy, Why: a.Why}
	}
	return s.ofEqual(f, there, there.sameTime(s.stored(f), s.Window) || !s.KeepsTimes())
}

// ofEqual returns the Action for a file or a link that is not copied.
func (s *Sync) ofEqual(f *endpoint.Info, there Held, sameTime bool) Action {
	switch {
	case !sameTime:
		return Action{Do: SetAttrs, Why: Touch}
	case f.Mode.IsRegular() && f.HasMode && s.otherPerm(f, there):
		return Action{Do: SetAttrs, Why: Mode}
	case s.Attributes.Owners && !there.sameOwner(f, s.Owners):
		return Action{Do: SetAttrs, Why: Owner}
	}
	return Action{Do: Same}
}

// otherPerm reports whether the target sets permissions in which an entry differs.
func (s *Sync) otherPerm(f *endpoint.Info, there Held) bool {
	other := there.Perm() ^ s.Attributes.Perm(f)
	return other != 0 && other&s.KeepsModes() != 0
}

// Attrs returns the attributes to set on a file or a link whose contents are equal.
func (s *Sync) Attrs(f *endpoint.Info) (set usftp.NewAttrs) {
	o := s.Attributes
	if f.Mode.IsRegular() {
		set.SetMode, set.Mode = f.HasMode && !o.NoModes, o.Perm(f)
	}
	if f.HasTimes && !o.NoTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = f.Atime, f.Mtime
	}
	if o.Owners && f.Owner.Known {
		set.SetOwner, set.UID, set.GID = true, f.Owner.UID, f.Owner.GID
	}
	return set
}

// IsSameDir reports whether a directory at the target has all the attributes it should.
func (s *Sync) IsSameDir(f *endpoint.Info, there Held) bool {
	o := s.Attributes
	return there.IsThere() && (o.NoTimes || there.sameTime(s.stored(f), s.Window)) &&
		(o.NoModes || !f.HasMode || there.Perm() == f.Mode.Perm() && there.sameSize(f)) &&
		(!o.Owners || there.sameOwner(f, s.Owners))
}

// IsRenamed reports whether the target's entry under an old name is the source's entry under a new
// one, judging by attributes.
func (s *Sync) IsRenamed(now *endpoint.Info, there Held) bool {
	return there.Kind() == kindOf(now.Mode) && (now.Mode.IsDir() || now.Mode.IsRegular() &&
		there.sameSize(now) && there.sameTime(s.stored(now), s.Window))
}

// stored returns the Info that the target shows for a source that has been copied.
func (s *Sync) stored(f *endpoint.Info) *endpoint.Info {
	at := s.Nearest(f.Mtime)
	if at.Unix() == f.Mtime.Unix() {
		return f
	}
	stored := *f
	stored.Mtime = at
	return &stored
}

// InWay reports whether an entry of the target has to go before a file or a link gets its name: a
// rename would not replace it.
func InWay(there Held, mode fs.FileMode) bool {
	return there.IsThere() && there.Kind() != File && (there.Kind() != Link || !mode.IsRegular())
}
