package transfer

import (
	"fmt"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
)

// A differ compares the source with the target beyond what listings show, for a sync.
type differ struct{ *syncing }

// attrs returns the attributes to set on an entry whose contents are equal.
func (s differ) attrs(e *entry) (set usftp.NewAttrs) {
	f := &e.info
	if e.info.Mode.IsRegular() {
		set.SetMode, set.Mode = f.HasMode && !s.options.NoModes, s.options.perm(f)
	}
	if f.HasTimes && !s.options.NoTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = f.Times()
	}
	if s.options.Owners && f.Owner.Known {
		set.SetOwner, set.UID, set.GID = true, f.Owner.UID, f.Owner.GID
	}
	return set
}

// probe compares what listings do not show: link targets and file contents. done is true if nothing
// is left to do.
func (s differ) probe(e *entry) (done bool, err error) {
	same := false
	if e.reason == ReasonLink {
		same, err = s.sameLink(e)
	} else {
		same, err = s.sameContents(e)
	}
	if !same || err != nil {
		return false, err
	}
	o := &s.options
	switch {
	case !e.existing.sameTime(s.asStored(&e.info), o.ModifyWindow) && s.inventories.keepsTimes():
		e.reason = ReasonTouch
	case e.info.Mode.IsRegular() && e.existing.perm() != o.perm(&e.info) &&
		s.inventories.keepsModes():
		e.reason = ReasonMode
	case o.Owners && !e.existing.sameOwner(&e.info, &s.inventories.owners):
		e.reason = ReasonOwner
	default:
		s.tree.equal(e)
		return true, nil
	}
	if !e.info.Mode.IsRegular() { // not every host can set a link's times
		return true, s.tree.walk.finishLink(e)
	}
	return false, nil
}

func (s differ) sameLink(e *entry) (bool, error) {
	var have string
	var haveErr error
	var asking sync.WaitGroup
	asking.Go(func() { have, haveErr = s.tree.into.ReadLink(e.rel()) })
	want, err := s.tree.readLink(e)
	asking.Wait()
	return err == nil && haveErr == nil && s.tree.into.SameLink(e.rel(), have, want), ofSource(err)
}

// sameContents compares the hashes of both files.
func (s differ) sameContents(e *entry) (bool, error) {
	s.tree.comparing.Add(1)
	defer s.tree.comparing.Add(-1)
	target := entry{dir: e.dir, name: e.name, info: e.info}
	target.info.Local = nil
	var there checksum.Hash
	var thereErr error
	var asking sync.WaitGroup
	asking.Go(func() { there, thereErr = s.hash(s.tree.dst.asSource(), &target, e.target()) })
	here, err := s.hash(s.tree.src, e, e.source())
	asking.Wait()
	return err == nil && thereErr == nil && here.Equal(there), err
}

// hash lets one side hash a file, or reads it.
func (s differ) hash(side end, e *entry, name string) (checksum.Hash, error) {
	j := *s.tree.job
	j.src, j.dst, j.listener = side, nowhere{job: &j}, nil
	j.options.Hash, j.options.Verify, j.options.List = checksum.SHA256, false, nil
	j.options.Journal, j.options.RemoveSource = "", false
	j.once = func(c *fileCopy) error {
		defer c.ends.connect(c)()
		return ofSource(c.hashing.sum(c))
	}
	c := newFileTask(&j, e, name, "")
	err := c.copy()
	c.slot.free()
	if conn := side.conn(); err == nil && conn != nil && c.result.Verified == VerifiedByReading {
		s.reported.Do(func() {
			s.tree.note(s.tree.route.Source, s.tree.root.target,
				fmt.Sprintf("%s does not hash files: they are read to compare them",
					conn.Host().Name))
		})
	}
	return c.result.Hash, err
}
