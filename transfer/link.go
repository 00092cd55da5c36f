package transfer

import (
	"errors"

	"github.com/usftp/usftp"
)

// finishLink gives a symbolic link that was made the owner and the times of its source, as far as
// they are asked for. Where links cannot have them, that is said once: as with rsync it is no
// failure, since whoever follows the link meets what was copied.
func (t *treeRun) finishLink(i *item) error {
	var set usftp.NewAttrs
	if err := t.Options.chown(i.facts.owner, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		return nil
	}); err != nil {
		return err
	}
	if t.Options.Preserve && i.facts.hasTimes {
		set.SetTimes, set.Atime, set.Mtime = true, i.facts.atime, i.facts.mtime
	}
	if !set.SetOwner && !set.SetTimes {
		return nil
	}
	err := t.target.finishLink(i, set)
	if errors.Is(err, errors.ErrUnsupported) {
		t.plainLinks.Do(func() {
			t.note(t.Source, t.root.target, "symbolic links do not get the owners and times of their sources: where they are made that cannot be set")
		})
		return nil
	}
	return err
}

func (l *localTree) finishLink(i *item, set usftp.NewAttrs) error {
	in, release, err := l.roots.use(i.dir, l.within(i.dir))
	if err != nil {
		return err
	}
	defer release()
	if set.SetOwner {
		err = in.Lchown(i.name, set.UID, set.GID)
	}
	if err == nil && set.SetTimes {
		atime, mtime := i.facts.localTimes()
		err = lchtimes(in, i.name, atime, mtime)
	}
	return err
}

// finishLink takes a round trip, and lsetstat@openssh.com (OpenSSH's PROTOCOL, section 4.7).
func (r *remoteTree) finishLink(i *item, set usftp.NewAttrs) error {
	return r.tree.over(i.source(),
		func(client *usftp.Client, _ bool) error { return client.LsetAttrs(i.target(), set) })
}

func (nowhere) finishLink(*item, usftp.NewAttrs) error { return nil }
