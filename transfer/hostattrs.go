package transfer

import (
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
)

// lockBack is by how much the lock is dated back, which is more than times are rounded.
const lockBack = 5 * time.Second

// probe finds out by the lock, a file of this run's own, whether the host sets times and modes.
// Some say yes and do nothing. OpenSSH's server is believed until it refuses, so that most syncs
// need not wait for the answers. The caller says that times are not set if it is comparing them.
func (v *inventories) probe(comparing bool) {
	s := v.sync
	conn, into := s.tree.dst.Conn(), s.tree.into
	if conn == nil || s.lock == nil || private.OfClient(conn.Host().Client).WorksInOrder() {
		return
	}
	times, modes := v.keeps()
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
	if err == nil {
		look := func() (endpoint.Info, error) { return into.Lstat(lockName) }
		pretended := endpoint.Pretends(quirksOf(conn), set, look, func(set usftp.NewAttrs) error {
			_, err := into.SetAttrs(lockName, 0, true, set)
			return err
		})
		unset.Times, unset.Modes = unset.Times || pretended.Times, unset.Modes || pretended.Modes
	}
	unset.Times = unset.Times && !comparing
	s.tree.copies.Options.Tell(unset, func(why string) {
		s.tree.warn(s.tree.route.Source, into.path, why)
	})
}
