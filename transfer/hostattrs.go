package transfer

import (
	"io/fs"
	"sync"
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
	s.options.tell(unset, func(why string) {
		s.tree.warn(s.tree.route.Source, into.path, why)
	})
}

// looks notes what a file is given, to look afterwards whether it has it, once for each host. As
// above, OpenSSH's server is believed. Copies that nobody asked to have attributes need no look,
// unless they replace something that not everybody may read.
func (s finalizing) looks(set usftp.NewAttrs) {
	o := s.o
	if (s.c.options.Preserve || o.private) && set != (usftp.NewAttrs{}) &&
		!private.OfClient(o.client).WorksInOrder() && !o.end.placement.quirks.Proved.Swap(true) {
		o.given = &set
	}
}

// look looks.
func (s finalizing) look() {
	o := s.o
	if o.given == nil {
		return
	}
	set := *o.given
	o.given = nil
	unset := endpoint.Pretends(o.end.placement.quirks, set, func() (endpoint.Info, error) {
		info, err := private.OfClient(o.client).Look(o.written())
		if err != nil {
			return endpoint.Info{}, err
		}
		if !info.Mode().IsRegular() { // it is written through a link, or was replaced
			return endpoint.Info{}, endpoint.ErrNotRegular
		}
		return endpoint.OfStat(info.Sys().(*usftp.FileStat)), nil
	}, func(set usftp.NewAttrs) error {
		return endpoint.SetUnfollowed(o.client, o.written(), set, 0, true)
	})
	s.c.options.tell(unset, s.c.warn)
}

// dirUnset is what the host does not set of directories. That is said in the end, unless it turns
// out to be so for all files.
type dirUnset struct {
	mu           sync.Mutex
	times, modes bool
	tried        once
	learned      bool // by that
}

// learn finds out, by a directory of this run's own, whether a denial is the host's for the
// attributes of any directory.
func (d *dirUnset) learn(t *tree, set usftp.NewAttrs) bool {
	d.tried.Do(func() {
		name := t.token.Name("attributes")
		if made, err := t.into.Mkdir(name, 0o700); !made || err != nil {
			return
		}
		set.SetOwner = false
		unset, err := t.setAttrs(name, fs.ModeDir, true, set)
		d.add(unset)
		d.learned = err == nil && (unset.Times || unset.Modes)
		t.into.Remove(name, true)
	})
	return d.learned
}

func (d *dirUnset) add(unset endpoint.Unset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.times, d.modes = d.times || unset.Times, d.modes || unset.Modes
}

func (d *dirUnset) tell(t *tree) {
	conn := t.dst.conn()
	if conn == nil || !t.options.Preserve { // it was not asked for
		return
	}
	q := quirksOf(conn)
	unset := endpoint.Unset{Times: d.times && !q.NoTimes.Load(), Modes: d.modes && !q.NoModes.Load(),
		Dirs: true}
	t.options.tell(unset, func(why string) {
		if !q.ToldDirs.Swap(true) {
			t.warn(t.root.source, t.root.target, why)
		}
	})
}
