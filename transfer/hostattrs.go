package transfer

import (
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// probe finds out by the lock, a file of this run's own, whether the host sets times and modes.
// Some say yes and do nothing. OpenSSH's server is believed until it refuses, so that most syncs
// need not wait for the answers.
func (v *inventories) probe() {
	s := v.sync
	conn, into := s.tree.dst.conn(), s.tree.into
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
	set := usftp.NewAttrs{SetTimes: times, SetMode: modes, Mode: before.Perm()}
	if at := before.Mtime.Add(-time.Second); times {
		set.Atime, set.Mtime = at, at
	}
	unset, err := into.SetAttrs(lockName, 0, true, set)
	if err == nil && times {
		after, err := into.Lstat(lockName)
		if err == nil && after.Mtime.Equal(before.Mtime) && !unset.Times {
			unset.Times = !quirksOf(conn).NoTimes.Swap(true)
		}
	}
	s.options.tell(unset, func(why string) {
		s.tree.warn(s.tree.route.Source, into.path, why)
	})
}
