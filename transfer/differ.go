package transfer

import (
	"fmt"
	"sync"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
)

// A differ compares the source with the target beyond what listings show, for a sync.
type differ struct{ *syncing }

// attrs returns the attributes to set on an entry whose contents are equal.
func (s differ) attrs(e *entry) (set usftp.NewAttrs) {
	f := &e.info
	if e.info.Mode.IsRegular() {
		set.SetMode, set.Mode = f.HasMode && !s.options.NoModes, s.tree.copies.Options.Perm(f)
	}
	if f.HasTimes && !s.options.NoTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = f.Atime, f.Mtime
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
	case e.info.Mode.IsRegular() && e.existing.perm() != s.tree.copies.Options.Perm(&e.info) &&
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
	same := err == nil && haveErr == nil && s.tree.into.SameLink(e.rel(), have, want)
	return same, endpoint.OfSource(err)
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
	asking.Go(func() { there, thereErr = s.hash(s.tree.dst.AsSource(), &target, e.target()) })
	here, err := s.hash(s.tree.src, e, e.source())
	asking.Wait()
	return err == nil && thereErr == nil && here.Equal(there), err
}

// hash lets one side hash a file, or reads it.
func (s differ) hash(side endpoint.Place, e *entry, name string) (checksum.Hash, error) {
	j := *s.tree.job
	j.listener, j.once = nil, filecopy.SumOnce
	j.dst, j.copies.Src, j.copies.Dst = nowhere{}, side, nowhere{}
	o := &j.copies.Options
	o.Hash, o.Verify, o.List, o.Journal, o.RemoveSource = checksum.SHA256, false, nil, "", false
	c := newFileTask(&j, e, name, "")
	err := c.copy()
	if conn := side.Conn(); err == nil && conn != nil && c.Result.Verified == filecopy.ByReading {
		s.reported.Do(func() {
			s.tree.note(s.tree.route.Source, s.tree.root.target,
				fmt.Sprintf("%s does not hash files: they are read to compare them",
					conn.Host().Name))
		})
	}
	return c.Result.Hash, err
}
