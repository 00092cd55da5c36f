package transfer

import (
	"io/fs"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// lockBack is how far the lock is dated back: more than times are rounded.
const lockBack = 5 * time.Second

// keeping finds out whether a sync's target sets times and modes.
type keeping struct {
	sync  *syncing
	asked endpoint.Once[any] // when that first matters
	told  sync.Once          // warned that times are not compared
}

func (k *keeping) times() bool {
	k.find(true)
	times, _ := k.known()
	return times
}

func (k *keeping) modes() fs.FileMode {
	k.find(false)
	switch _, modes := k.known(); {
	case !modes:
		return 0
	case localfs.OnlyReadOnly && k.sync.tree.dst.Conn() == nil:
		return 0o200
	}
	return fs.ModePerm
}

// known reports whether times and modes are wanted, and not known to be ignored by the target.
func (k *keeping) known() (times, modes bool) {
	s := k.sync
	q := s.tree.dst.Quirks()
	return !s.options.NoTimes && !q.NoTimes.Load(), !s.tree.options.NoModes && !q.NoModes.Load()
}

// find calls probe once. A caller that compares times reports itself that they are not set.
func (k *keeping) find(comparing bool) {
	k.asked.Do(func() any { k.probe(comparing); return nil })
}

// probe tests with the lock, a file of this run's own, whether the host sets times and modes. Some
// say yes and do nothing. OpenSSH's server is trusted until it refuses, so that most syncs need not
// wait for the answers.
func (k *keeping) probe(comparing bool) {
	s := k.sync
	conn, into := s.tree.dst.Conn(), s.tree.into
	if s.lock == nil || conn != nil && private.OfClient(conn.Host().Client).WorksInOrder() {
		return
	}
	times, modes := k.known()
	if !times && !modes {
		return
	}
	before, err := into.Lstat(lockName)
	if err != nil || !before.HasTimes {
		return
	}
	set := usftp.NewAttrs{SetTimes: times}
	if at := before.Mtime.Add(-lockBack); times {
		set.Atime, set.Mtime = at, at
	}
	if modes && before.HasMode {
		set.SetMode, set.Mode = true, before.Perm()^0o100
	}
	unset, err := into.SetAttrs(lockName, 0, true, set)
	if err == nil && conn != nil {
		look := func() (endpoint.Info, error) { return into.Lstat(lockName) }
		pretended := endpoint.Pretends(s.tree.dst.Quirks(), set, look, func(set usftp.NewAttrs) error {
			_, err := into.SetAttrs(lockName, 0, true, set)
			return err
		})
		unset.Times, unset.Modes = unset.Times || pretended.Times, unset.Modes || pretended.Modes
	}
	unset.Times = unset.Times && !comparing
	s.tree.copies.Options.Tell(unset, func(why string) {
		s.tree.root.warn(why)
	})
}
