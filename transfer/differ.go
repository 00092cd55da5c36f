package transfer

import (
	"sync"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/plan"
)

// A differ compares the source with the target for a sync where listings do not suffice.
type differ struct{ *syncing }

// same compares link targets or file contents, which listings do not show.
func (s differ) same(e *entry) (bool, error) {
	if e.do.Why == plan.Leads {
		return s.sameLink(e)
	}
	return s.sameContents(e)
}

func (s differ) sameLink(e *entry) (bool, error) {
	var have string
	var haveErr error
	var asking sync.WaitGroup
	asking.Go(func() { have, haveErr = s.tree.into.ReadLink(e.rel()) })
	err := e.readText()
	asking.Wait()
	return err == nil && haveErr == nil && s.tree.into.SameLink(e.rel(), have, e.text), err
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
	asking.Go(func() { there, thereErr = s.hash(s.tree.dst, &target, e.target()) })
	here, err := s.hash(s.tree.src, e, e.source())
	asking.Wait()
	return err == nil && thereErr == nil && here.Equal(there), err
}

// hash lets one side hash a file, or reads the file.
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
			s.tree.root.note(conn.Host().Name +
				" does not hash files: they are read to compare them")
		})
	}
	return c.Result.Hash, err
}
