package transfer

import (
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// Some hosts take files and let nobody set their times or permissions: AWS Transfer Family in front
// of S3, Azure, and servers that deny SETSTAT. What was to be set is then tried one by one. What is
// refused for a file that this copy has made is refused for all, so it is said once and not asked
// for again, and the file counts as copied.

// setEach sets attributes one by one, after they were refused together. own is set for a file or
// directory that this copy has made; say is told what the host does not set.
func (p placement) setEach(set usftp.NewAttrs, own bool, say func(string),
	try func(usftp.NewAttrs) error) error {
	p.quirks.Settable(&set)
	if set.SetTimes {
		err := try(usftp.NewAttrs{SetTimes: true, Atime: set.Atime, Mtime: set.Mtime})
		switch {
		case own && refused(err):
			p.noTimes(say)
		case err != nil:
			return err
		}
	}
	if set.SetMode {
		err := try(usftp.NewAttrs{SetMode: true, Mode: set.Mode})
		switch {
		case own && refused(err):
			p.noModes(say)
		case err != nil:
			return err
		}
	}
	if set.SetOwner { // which nobody gets who did not ask for it
		return try(usftp.NewAttrs{SetOwner: true, UID: set.UID, GID: set.GID})
	}
	return nil
}

func (p placement) noTimes(say func(string)) {
	if !p.quirks.NoTimes.Swap(true) && !p.attributes.NoTimes {
		say("the host does not set times: what is copied gets the current time")
	}
}

func (p placement) noModes(say func(string)) {
	if !p.quirks.NoModes.Swap(true) && !p.attributes.NoModes {
		say("the host does not set permissions: what is copied gets those that the host chooses")
	}
}

// setByPath sets a file's attributes by its path, after FSETSTAT was refused, or where it is known
// to be. Servers without FSETSTAT (Twisted's) have SETSTAT.
func (s sealing) setByPath(set usftp.NewAttrs, refusal error) error {
	o, p, name := s.o, s.o.end.placement, s.o.name
	if errors.Is(refusal, errors.ErrUnsupported) {
		p.quirks.NoFsetstat.Store(true)
	}
	if o.temp != "" {
		name = o.temp
	}
	say := func(string) {} // nobody has asked for it
	if s.c.options.Preserve || o.info != nil {
		say = s.c.warn
	}
	err := p.setEach(set, o.temp != "" || o.info == nil, say, func(part usftp.NewAttrs) error {
		return setUnfollowed(o.client, name, part, fs.FileMode.IsRegular)
	})
	return s.attrsRefused(err)
}

// probe finds out by the lock, a file of this run's own, whether the host sets times and modes. Some
// say yes and do nothing. OpenSSH's server is believed until it refuses, so that most syncs need not
// wait for the answers.
func (t remoteMirror) probe(lock string) {
	name := path.Join(t.job.tree.root.target, lock)
	say := func(why string) { t.job.tree.warn(t.job.route.Source, t.job.tree.root.target, why) }
	times, modes := t.keeps()
	if !times && !modes {
		return
	}
	t.over(name, func(client *usftp.Client, _ bool) error {
		if private.OfClient(client).WorksInOrder() {
			return nil
		}
		before, err := client.Lstat(name)
		if err != nil || !before.Sys().(*usftp.FileStat).HasTimes() {
			return err
		}
		at := before.ModTime().Add(-time.Second)
		set := usftp.NewAttrs{SetTimes: times, SetMode: modes, Mode: before.Mode().Perm()}
		if times {
			set.Atime, set.Mtime = at, at
		}
		if err := t.placement.setEach(set, true, say, func(part usftp.NewAttrs) error {
			return setUnfollowed(client, name, part, fs.FileMode.IsRegular)
		}); err != nil {
			return err
		}
		if after, err := client.Lstat(name); err == nil && times &&
			after.ModTime().Equal(before.ModTime()) {
			t.placement.noTimes(say)
		}
		return nil
	})
}

func (t remoteMirror) keeps() (times, modes bool) {
	q, o := t.placement.quirks, &t.job.options
	return !o.NoTimes && !q.NoTimes.Load(), !o.NoModes && !q.NoModes.Load()
}

func (localMirror) probe(string) {}
func (t localMirror) keeps() (times, modes bool) {
	return !t.job.options.NoTimes, !t.job.options.NoModes
}
